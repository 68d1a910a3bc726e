// What tells the file of a model from others, without reading its data.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "runner/formats/mapped_file.h"

namespace runnel {

// Of what decides what the weights mean: header, metadata and table of tensors.
uint64_t hash_of_head(std::span<const std::byte> head);
// With the hash of the parts before this one: its head, and size, time and inode of the file.
uint64_t hash_of_part(uint64_t hash, const MappedFile& file, std::span<const std::byte> head);
// The hash with size, modification time and inode of the file that stands for the model.
std::string identity_of(uint64_t hash, const MappedFile& file);

}  // namespace runnel
