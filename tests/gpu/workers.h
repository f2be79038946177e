// Numbered cases spread over processes, so that kernels are compiled side by side, and a case that hangs or breaks its
// CUDA context costs only itself.
#pragma once

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <new>
#include <string>
#include <vector>

namespace transfuse {

class Workers {
public:
    // `one` gives an empty string where its case is right, else a complaint. Returns how many were wrong. `shown`
    // complaints are printed; a case has `seconds`.
    static uint64_t run(uint64_t first, uint64_t count, int processes, unsigned seconds, uint64_t shown,
                        const std::function<std::string(uint64_t)>& one) {
        void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) return count;
        Shared& shared = *new (memory) Shared;
        shared.next = first;
        processes = static_cast<int>(std::min<uint64_t>(static_cast<uint64_t>(std::min(processes, 64)), count));
        std::vector<pid_t> children(static_cast<size_t>(processes));
        auto start = [&](size_t w) {
            std::fflush(stdout);
            children[w] = fork();
            if (children[w] == 0) work(shared, w, first + count, seconds, shown, one);
        };
        for (size_t w = 0; w < children.size(); ++w) start(w);
        for (int alive = processes; alive > 0;) {
            int status = 0;
            const pid_t gone = wait(&status);
            const auto w = static_cast<size_t>(std::find(children.begin(), children.end(), gone) - children.begin());
            if (w == children.size()) continue;
            if (!WIFEXITED(status)) {  // its case is still open
                const char* why = WTERMSIG(status) == SIGALRM ? "did not end" : "killed the process";
                complain(shared, shown, shared.current[w], why);
            }
            if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
                --alive;
            else
                start(w);
        }
        const uint64_t wrong = shared.wrong;
        munmap(memory, sizeof(Shared));
        return wrong;
    }

private:
    struct Shared {
        std::atomic<uint64_t> next{0}, wrong{0}, current[64]{};
    };

    static void complain(Shared& shared, uint64_t shown, uint64_t number, const std::string& text) {
        if (shared.wrong++ >= shown) return;
        const std::string line = "case " + std::to_string(number) + ": " + text + "\n";
        if (write(1, line.data(), line.size()) < 0) return;
    }

    [[noreturn]] static void work(Shared& shared, size_t w, uint64_t end, unsigned seconds, uint64_t shown,
                                  const std::function<std::string(uint64_t)>& one) {
        for (uint64_t number = shared.next++; number < end; number = shared.next++) {
            shared.current[w] = number;
            alarm(seconds);
            const std::string complaint = one(number);
            alarm(0);
            if (complaint.empty()) continue;
            complain(shared, shown, number, complaint);
            if (complaint.find("CUDA_ERROR") != std::string::npos) _exit(1);  // the context may be gone
        }
        _exit(0);
    }
};

}  // namespace transfuse
