// The programs of a process, by handle.
#include "transfuse/error.h"
#include "transfuse/program.h"

namespace transfuse {

namespace {

struct Held {
    std::shared_ptr<Program> program;
    int64_t holders = 0;
    bool salted = false;
};

struct Registry {
    std::shared_mutex mutex;
    std::unordered_map<int64_t, Held> held;
    Recent<int64_t, std::shared_ptr<Program>> loose{size_t{256} << 20};  // that nobody holds

    std::shared_ptr<Program> find(int64_t handle) const {
        if (const auto at = held.find(handle); at != held.end()) return at->second.program;
        const std::shared_ptr<Program>* const found = loose.find(handle);
        return found != nullptr ? *found : nullptr;
    }
    // Gives what is dropped for it, to go away where no lock is held.
    [[nodiscard]] auto let_loose(int64_t handle, std::shared_ptr<Program> program) {
        constexpr size_t about = size_t{1} << 20;  // of its text, its forms and its kernels' texts
        const size_t bytes = about + program->bytes();
        return loose.put(handle, std::move(program), bytes);
    }
};

Registry& registry() {
    static Registry* const all = new Registry;  // never destroyed: calls may outlive static destruction
    return *all;
}

int64_t named(const std::string& text, uint64_t salt, bool hold) {
    uint64_t h = 0xCBF29CE484222325ULL ^ salt * 0x9E3779B97F4A7C15ULL;  // FNV-1a
    for (unsigned char c : text) h = (h ^ c) * 0x100000001B3ULL;
    Registry& all = registry();
    std::vector<std::shared_ptr<Program>> dropped;
    const std::unique_lock lock(all.mutex);
    for (auto handle = static_cast<int64_t>(h >> 1);; ++handle) {
        std::shared_ptr<Program> program = all.find(handle);
        if (program && program->text() != text) continue;
        const bool fresh = !program;
        if (fresh) program = std::make_shared<Program>(text);
        if (!hold) {
            if (fresh) dropped = all.let_loose(handle, std::move(program));
            return handle;
        }
        Held& held = all.held[handle];
        if (held.holders++ == 0) {
            held.program = std::move(program), held.salted = salt != 0;
            dropped = all.loose.take_if([&](int64_t other, const auto&) { return other == handle; });
        }
        return handle;
    }
}

}  // namespace

int64_t define_program(const std::string& text) { return named(text, 0, false); }

int64_t hold_program(const std::string& text, uint64_t salt) { return named(text, salt, true); }

void release_program(int64_t handle) {
    Registry& all = registry();
    std::shared_ptr<Program> released;
    std::vector<std::shared_ptr<Program>> dropped;
    const std::unique_lock lock(all.mutex);
    const auto at = all.held.find(handle);
    if (at == all.held.end() || --at->second.holders > 0) return;
    released = std::move(at->second.program);
    const bool salted = at->second.salted;
    all.held.erase(at);
    if (!salted) dropped = all.let_loose(handle, std::move(released));
}

std::shared_ptr<Program> program(int64_t handle) {
    Registry& all = registry();
    std::shared_lock lock(all.mutex);
    std::shared_ptr<Program> found = all.find(handle);
    require(found != nullptr, "no Transfuse program has the handle ", handle, " in this process");
    return found;
}

}  // namespace transfuse
