// Compiled kernels on disk, shared by processes. An entry is written to a temporary file and renamed; it carries its
// key and a checksum, and one that is truncated, foreign or damaged is a miss. Where the folder cannot be written,
// nothing is kept.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace transfuse::cuda {

// TRANSFUSE_CACHE_DIR, else $XDG_CACHE_HOME/transfuse, else ~/.cache/transfuse; empty: no folder.
std::string cache_folder();

uint64_t hash64(std::string_view bytes, uint64_t seed = 0);
std::string hash_name(std::string_view bytes);  // 128 bits in hexadecimal

std::optional<std::string> cache_load(std::string_view key);       // key: any bytes (options, versions and source text)
void cache_store(std::string_view key, std::string_view content);  // never throws

}  // namespace transfuse::cuda
