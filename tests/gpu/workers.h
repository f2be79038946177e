// Numbered cases spread over processes, so that kernels are compiled side by side, and a case that hangs or breaks its
// CUDA context costs only itself.
#pragma once

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <new>
#include <string>
#include <vector>

namespace transfuse {

class Workers {
public:
    struct Limits {
        unsigned each = 40;        // seconds a case has
        unsigned all = 0;          // seconds after which no case is begun; 0: all are
        uint64_t complaints = 12;  // that are printed
    };
    struct Outcome {
        uint64_t tried = 0, wrong = 0;
    };

    // `one` gives an empty string where its case is right, else a complaint.
    static Outcome run(uint64_t first, uint64_t count, int processes, const Limits& limits,
                       const std::function<std::string(uint64_t)>& one) {
        void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) return {0, count};
        Shared& shared = *new (memory) Shared;
        shared.next = first;
        shared.deadline = limits.all != 0 ? Clock::now() + std::chrono::seconds(limits.all) : Clock::time_point::max();
        processes = static_cast<int>(std::min<uint64_t>(static_cast<uint64_t>(std::min(processes, 64)), count));
        std::vector<pid_t> children(static_cast<size_t>(processes));
        auto start = [&](size_t w) {
            std::fflush(stdout);
            children[w] = fork();
            if (children[w] == 0) work(shared, w, first + count, limits, one);
        };
        for (size_t w = 0; w < children.size(); ++w) start(w);
        for (int alive = processes; alive > 0;) {
            int status = 0;
            const pid_t gone = wait(&status);
            const auto w = static_cast<size_t>(std::find(children.begin(), children.end(), gone) - children.begin());
            if (w == children.size()) continue;
            if (!WIFEXITED(status)) {  // its case is still open
                const char* why = WTERMSIG(status) == SIGALRM ? "did not end" : "killed the process";
                complain(shared, limits.complaints, shared.current[w], why);
            }
            if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
                --alive;
            else
                start(w);
        }
        const Outcome outcome{shared.tried, shared.wrong};
        munmap(memory, sizeof(Shared));
        return outcome;
    }

private:
    using Clock = std::chrono::steady_clock;

    struct Shared {
        std::atomic<uint64_t> next{0}, tried{0}, wrong{0}, current[64]{};
        Clock::time_point deadline;
    };

    static void complain(Shared& shared, uint64_t shown, uint64_t number, const std::string& text) {
        if (shared.wrong++ >= shown) return;
        const std::string line = "case " + std::to_string(number) + ": " + text + "\n";
        if (write(1, line.data(), line.size()) < 0) return;
    }

    [[noreturn]] static void work(Shared& shared, size_t w, uint64_t end, const Limits& limits,
                                  const std::function<std::string(uint64_t)>& one) {
        for (uint64_t number = shared.next++; number < end && Clock::now() < shared.deadline; number = shared.next++) {
            shared.current[w] = number;
            ++shared.tried;
            alarm(limits.each);
            const std::string complaint = one(number);
            alarm(0);
            if (complaint.empty()) continue;
            complain(shared, limits.complaints, number, complaint);
            if (complaint.find("CUDA_ERROR") != std::string::npos) _exit(1);  // the context may be gone
        }
        _exit(0);
    }
};

}  // namespace transfuse
