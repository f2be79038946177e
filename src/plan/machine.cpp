// The machines the cost model knows. Figures are what a good kernel reaches, not what a data sheet says.
#include <algorithm>

#include "transfuse/plan.h"

namespace transfuse {

Machine Machine::h200() {
    Machine machine;
    machine.name = "h200";
    machine.flops = 2.5e14;  // TF32 on tensor cores: large products run at 380e12, those of small images or few
                             // channels at 80 to 220e12
    machine.pointwise_flops = 3.0e13;
    machine.tile_flops = 1.2e13;  // half of what a tanh after f2 at an even width ran at (0.23 ms for 537 M outputs of
                                  // ten ops): other chains wait for their stores
    machine.bandwidth = 4.0e12;
    machine.launch = 3e-6;
    machine.prices.stored_from = 500;  // 8 bytes an element there and back against its flops once more
    machine.tile_channels = machine.tile_row = 256;
    machine.sinks_before_pool = machine.prologue_casts = false;
    machine.thin_work = 1400;  // times were taken at 384 (faster than tensor cores) and 1296, the crossing was not
    machine.any_rows = true;
    machine.grid_rows = false;
    machine.pools_in_loop = true;
    machine.pool_outputs = 64;
    return machine;
}

Machine Machine::cpu(int threads) {
    const int n = std::max(threads, 1);
    Machine machine;
    machine.name = "cpu:" + std::to_string(n);
    machine.flops = 5.5e10 * n;
    machine.pointwise_flops = 1e10 * n;
    machine.bandwidth = std::min(2e10 * n, 1e11);
    machine.launch = 5e-6;
    machine.tile_channels = 1024;
    return machine;
}

}  // namespace transfuse
