#include "cuda/dense/schedule/config.h"

#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace transfuse::cuda {

std::string to_string(const Config& c) {
    std::ostringstream text;
    auto list = [&](const std::array<int, 4>& a) { text << a[0] << "x" << a[1] << "x" << a[2] << "x" << a[3]; };
    text << "run ";
    list(c.run);
    text << " runs ";
    list(c.runs);
    text << (c.split == Split::channels ? " split channels"
             : c.split == Split::pixels ? " split pixels"
                                        : " split phases")
         << " bundles " << c.bundles << " k_steps " << c.k_steps << " stages " << c.stages << " raw " << c.raw << "x"
         << c.piece << (c.resident ? " resident" : " slabs ");
    if (!c.resident) text << c.slabs << "x" << c.slab_tiles;
    text << " chunks " << c.buffers << "x" << c.chunk_width << " stores " << c.store_groups << " registers "
         << c.load_registers << "/" << c.store_registers << "/" << c.product_registers;
    if (c.w_phases) text << " w-phases " << c.w_phases;
    if (c.swap_ab) text << " swap_ab";
    if (c.direct) text << " direct";
    if (c.strip) text << " strip";
    if (c.shared_padding) text << " shared padding";
    if (c.flat) text << " flat";
    if (c.skips) text << " skips";
    if (c.alternates) text << " alternates";
    return text.str();
}

std::optional<Config> config_named(const std::string& text) {
    Config c;
    char split[16] = "", weights[16] = "";
    int used = 0;
    if (std::sscanf(text.c_str(),
                    "run %dx%dx%dx%d runs %dx%dx%dx%d split %15s bundles %d k_steps %d stages %d raw %dx%d %15s%n",
                    &c.run[0], &c.run[1], &c.run[2], &c.run[3], &c.runs[0], &c.runs[1], &c.runs[2], &c.runs[3], split,
                    &c.bundles, &c.k_steps, &c.stages, &c.raw, &c.piece, weights, &used) != 15)
        return std::nullopt;
    c.split = split[0] == 'c' ? Split::channels : split[1] == 'i' ? Split::pixels : Split::phases;
    c.resident = weights[0] == 'r';
    const std::string rest = text.substr(static_cast<size_t>(used));
    const char* at = rest.c_str();
    if (!c.resident) {
        int count = 0;
        if (std::sscanf(at, "%dx%d%n", &c.slabs, &c.slab_tiles, &count) != 2) return std::nullopt;
        at += count;
    }
    if (std::sscanf(at, " chunks %dx%d stores %d registers %d/%d/%d", &c.buffers, &c.chunk_width, &c.store_groups,
                    &c.load_registers, &c.store_registers, &c.product_registers) != 6)
        return std::nullopt;
    if (const size_t phases = rest.find(" w-phases "); phases != std::string::npos)
        c.w_phases = std::atoi(rest.c_str() + phases + 10);
    c.swap_ab = rest.find(" swap_ab") != std::string::npos;
    c.direct = rest.find(" direct") != std::string::npos;
    c.strip = rest.find(" strip") != std::string::npos;
    c.shared_padding = rest.find(" shared padding") != std::string::npos,
    c.flat = rest.find(" flat") != std::string::npos, c.skips = rest.find(" skips") != std::string::npos,
    c.alternates = rest.find(" alternates") != std::string::npos;
    return to_string(c) == text ? std::optional<Config>(c) : std::nullopt;
}

// Σ (registers of a role × its warps) ≤ registers a thread at launch × warps, or the products never start.
void Config::share_registers() {
    if (store_groups == 0)
        load_registers = 88, store_registers = 0, product_registers = 208;
    else if (store_groups > 1)
        load_registers = 56, store_registers = 56, product_registers = 152;
    else
        load_registers = 64, store_registers = 96, product_registers = 176;
}

}  // namespace transfuse::cuda
