#include "cuda/runtime/cache.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace transfuse::cuda {

namespace fs = std::filesystem;

namespace {

constexpr char magic[8] = {'t', 'f', 'u', 's', 'e', '0', '1', '\n'};

struct Header {
    char magic[8];
    uint64_t key_low, key_high;  // of the whole key, not only of the name
    uint64_t size, checksum;
};

Header header_of(std::string_view key, std::string_view content) {
    Header header{};
    std::memcpy(header.magic, magic, sizeof magic);
    header.key_low = hash64(key, 1), header.key_high = hash64(key, 2);
    header.size = content.size(), header.checksum = hash64(content, 3);
    return header;
}

fs::path path_of(std::string_view key) {
    const std::string folder = cache_folder();
    if (folder.empty()) return {};
    return fs::path(folder) / (hash_name(key) + ".cubin");
}

}  // namespace

// Multiply-rotate over 8-byte words with a strong final mix; not cryptographic, only for telling sources apart.
uint64_t hash64(std::string_view bytes, uint64_t seed) {
    auto mix = [](uint64_t x) {
        x ^= x >> 32, x *= 0xd6e8feb86659fd93ULL, x ^= x >> 32, x *= 0xd6e8feb86659fd93ULL, x ^= x >> 32;
        return x;
    };
    uint64_t h = mix(seed + 0x9e3779b97f4a7c15ULL) ^ (bytes.size() * 0x9fb21c651e98df25ULL);
    size_t i = 0;
    for (; i + 8 <= bytes.size(); i += 8) {
        uint64_t word;
        std::memcpy(&word, bytes.data() + i, 8);
        h = mix(h ^ word) + 0x9e3779b97f4a7c15ULL;
    }
    uint64_t rest = 0;
    std::memcpy(&rest, bytes.data() + i, bytes.size() - i);
    return mix(h ^ rest ^ 0xa5a5a5a5ULL);
}

std::string hash_name(std::string_view bytes) {
    static constexpr char digits[] = "0123456789abcdef";
    std::string text;
    for (uint64_t half : {hash64(bytes, 11), hash64(bytes, 12)})
        for (int shift = 60; shift >= 0; shift -= 4) text += digits[(half >> shift) & 15];
    return text;
}

std::string cache_folder() {
    if (const char* given = std::getenv("TRANSFUSE_CACHE_DIR")) return given;
    if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg && *xdg) return std::string(xdg) + "/transfuse";
    if (const char* home = std::getenv("HOME"); home && *home) return std::string(home) + "/.cache/transfuse";
    return {};
}

std::optional<std::string> cache_load(std::string_view key) {
    const fs::path path = path_of(key);
    if (path.empty()) return std::nullopt;
    std::ifstream file(path, std::ios::binary);
    if (!file) return std::nullopt;
    std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    if (bytes.size() < sizeof(Header)) return std::nullopt;
    const std::string_view content = std::string_view(bytes).substr(sizeof(Header));
    const Header expected = header_of(key, content);
    if (std::memcmp(bytes.data(), &expected, sizeof expected) != 0) return std::nullopt;
    return std::string(content);
}

void cache_store(std::string_view key, std::string_view content) {
    const fs::path path = path_of(key);
    if (path.empty()) return;
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    static std::atomic<uint64_t> serial{0};
    fs::path temporary = path;
    temporary += "." + std::to_string(getpid()) + "." + std::to_string(serial++) + "." +
                 std::to_string(std::chrono::steady_clock::now().time_since_epoch().count()) + ".tmp";
    {
        std::ofstream file(temporary, std::ios::binary);
        const Header header = header_of(key, content);
        file.write(reinterpret_cast<const char*>(&header), sizeof header);
        file.write(content.data(), static_cast<std::streamsize>(content.size()));
        file.flush();
        if (!file) {
            file.close();
            fs::remove(temporary, error);
            return;
        }
    }
    fs::rename(temporary, path, error);
    if (error) fs::remove(temporary, error);
}

}  // namespace transfuse::cuda
