#include "runner/engine/kv_sources.h"

#include <algorithm>
#include <utility>

#include "runner/engine/kv_mapping.h"

namespace runnel {
namespace {

constexpr const char* kPurpose = "another runner's KV cache";

}  // namespace

std::optional<KvSource> KvSource::look_into(const MemoryFile& memory, KvIndexShape shape) {
  shape.num_blocks = KvMapping::kept_blocks(memory, shape);
  if (shape.num_blocks == 0) return std::nullopt;
  const uint64_t offset = KvMapping::blocks_offset(shape);
  Result<Memory> index = Memory::map(memory, 0, offset, Access::kRead, kPurpose);
  Result<Memory> blocks =
      Memory::map(memory, offset, shape.num_blocks * shape.block_bytes, Access::kRead, kPurpose);
  if (!index.ok() || !blocks.ok()) return std::nullopt;
  return KvSource(*std::move(index), *std::move(blocks), shape);
}

KvSource::KvSource(Memory index, Memory blocks, const KvIndexShape& shape)
    : index_(std::move(index)), blocks_(std::move(blocks)), view_(index_.span(), blocks_.span(), shape) {
  for (uint32_t id = 0; id < shape.num_blocks; ++id)
    if (!view_.is_empty(id)) ids_.emplace(view_.unchecked_hash(id), id);
}

template <typename IsRight>
std::optional<KvSource::Found> KvSource::find_where(uint64_t hash, const IsRight& is_right) const {
  const auto [begin, end] = ids_.equal_range(hash);
  for (auto candidate = begin; candidate != end; ++candidate) {
    std::optional<KvContent> content = view_.read(candidate->second);
    if (content && is_right(*content)) return Found{candidate->second, *std::move(content)};
  }
  return std::nullopt;
}

std::optional<KvSource::Found> KvSource::find(uint64_t hash, uint64_t previous_content,
                                              const std::string& salt,
                                              std::span<const uint32_t> token_ids) const {
  return find_where(hash, [&](const KvContent& content) {
    return content.group == 0 && content.hash == hash && content.previous_content == previous_content &&
           content.salt == salt && std::ranges::equal(content.token_ids, token_ids);
  });
}

std::optional<KvSource::Found> KvSource::find_beside(const KvContent& first, uint32_t group) const {
  KvContent wanted = first;
  wanted.group = group;
  return find_where(first.hash, [&](const KvContent& content) {
    wanted.checksum = content.checksum;
    return content == wanted;
  });
}

KvSource::Copy KvSource::copy(const Found& found, std::span<std::byte> to) const {
  std::ranges::copy(view_.block(found.id), to.begin());
  if (KvIndexView::is_intact(to, found.content.checksum)) return Copy::kIntact;
  return view_.read(found.id) == found.content ? Copy::kDamaged : Copy::kReused;
}

std::optional<KvSource> KvSources::look_into(uint32_t descriptor, const KvIndexShape& shape) const {
  const auto found = memories_.find(descriptor);
  return found == memories_.end() ? std::nullopt : KvSource::look_into(found->second, shape);
}

const KvSource* KvLook::at(uint32_t descriptor) {
  if (sources_ == nullptr) return nullptr;
  const auto [place, is_new] = seen_.try_emplace(descriptor);
  if (is_new) place->second = sources_->look_into(descriptor, *shape_);
  return place->second ? &*place->second : nullptr;
}

}  // namespace runnel
