#include "cuda-runner/device_experts.h"

#include <algorithm>

#include "cuda-runner/device/error.h"
#include "cuda-runner/kernels/grouped_product.h"
#include "runner/check.h"
#include "runner/formats/weight_type.h"

namespace runnel {
namespace {

// Experts are multiplied in groups where they are used by this many rows each on average. Without groups
// every use reads its expert's matrices. With groups they are read once for each expert that is used, and
// once more for each further 32 uses: half as often at this number, or less. Below it most experts have one
// use, and the launches that order the uses, gather the rows and add up the outputs cost more than is saved.
// It is an average, since the host does not know which experts are used.
constexpr uint32_t kLeastUsesOfExpert = 2;

bool has_groups_of(uint32_t num_rows, const ExpertsShape& shape) {
  return uint64_t{num_rows} * shape.num_used >= uint64_t{kLeastUsesOfExpert} * shape.num_experts;
}

// The most rows whose gathered rows and outputs take so many bytes. 0: too few to be multiplied in groups.
uint32_t most_rows(const ExpertsShape& shape, uint64_t most_bytes) {
  const uint32_t width = std::max(shape.hidden, shape.gated);
  // Of one place: kRowGroup rows are the least that an activation is allocated for.
  const uint64_t place_bytes = DeviceActivation(kRowGroup, width).num_bytes() / kRowGroup;
  const uint64_t use_bytes = place_bytes + uint64_t{shape.own_hidden} * sizeof(float);
  const uint64_t unused_bytes = UseGroups::most_unused(shape.num_experts) * place_bytes;
  const uint64_t rows =
      most_bytes > unused_bytes ? (most_bytes - unused_bytes) / (shape.num_used * use_bytes) : 0;
  const auto most = static_cast<uint32_t>(std::min<uint64_t>(rows, shape.max_rows));
  return has_groups_of(most, shape) ? most : 0;
}

// Products of float weights read the values of rows.
GatheredRows read_by(TensorType type) {
  return is_quantised(type) ? GatheredRows::kBlocks : GatheredRows::kValues;
}

}  // namespace

DeviceExperts::DeviceExperts(const ExpertsShape& shape, uint64_t most_part_bytes)
    : shape_(shape), part_rows_(most_rows(shape, most_part_bytes)) {
  if (part_rows_ == 0) return;
  // The last group has the places of a whole one.
  gathered_.emplace(most_places() + kGroupUses, std::max(shape.hidden, shape.gated));
}

uint64_t DeviceExperts::num_bytes() const {
  const Sizes sizes = this->sizes();
  return 2 * device_bytes(sizes.uses, sizeof(uint32_t)) + device_bytes(sizes.counts, sizeof(uint32_t)) +
         device_bytes(sizes.places, sizeof(uint32_t)) + device_bytes(sizes.groups, sizeof(uint32_t)) +
         device_bytes(sizes.outputs, sizeof(float)) + (gathered_ ? gathered_->num_bytes() : 0);
}

DeviceExperts::Sizes DeviceExperts::sizes() const {
  const size_t uses = size_t{shape_.max_rows} * shape_.num_used;
  if (part_rows_ == 0) return {.uses = uses};
  const size_t parts = num_parts(shape_.max_rows);
  return {.uses = uses,
          .counts = parts * shape_.num_experts,
          .places = parts * most_places(),
          .groups = parts * most_groups() * kGroupWords,
          .outputs = size_t{part_rows_} * shape_.num_used * shape_.own_hidden};
}

Result<void> DeviceExperts::allocate(Stream& stream) {
  const Sizes sizes = this->sizes();
  const Result<void> allocated =
      allocate_all("the experts of a step's rows", Wanted{ids_, sizes.uses}, Wanted{weights_, sizes.uses},
                   Wanted{counts_, sizes.counts}, Wanted{places_, sizes.places},
                   Wanted{groups_, sizes.groups}, Wanted{outputs_, sizes.outputs});
  if (!allocated || !gathered_) return allocated;
  return gathered_->allocate(stream);
}

bool DeviceExperts::has_groups(uint32_t num_rows) const {
  return part_rows_ > 0 && has_groups_of(num_rows / num_parts(num_rows), shape_);
}

template <typename Of>
void DeviceExperts::for_parts(uint32_t num_rows, const Of& of) {
  const uint32_t parts = num_parts(num_rows);
  for (uint32_t i = 0; i < parts; ++i) {
    const auto begin = static_cast<uint32_t>(uint64_t{num_rows} * i / parts);
    const auto end = static_cast<uint32_t>(uint64_t{num_rows} * (i + 1) / parts);
    const uint32_t num_uses = (end - begin) * shape_.num_used;
    const size_t group_words = size_t{most_groups()} * kGroupWords;
    of(UsePart{begin, end - begin},
       UseGroups{.counts = counts_.view().from(size_t{i} * shape_.num_experts, shape_.num_experts),
                 .uses = places_.view().from(size_t{i} * most_places(), most_places()),
                 .groups = groups_.view().from(i * group_words, group_words),
                 .num_groups = UseGroups::most_groups(num_uses, shape_.num_experts)});
  }
}

ReadyRows DeviceExperts::gathered_like(const ReadyRows& in) {
  ReadyRows rows = gathered_->ready();
  CHECK(in.stride <= rows.stride);
  rows.width = in.width;
  rows.stride = in.stride;
  return rows;
}

void DeviceExperts::choose(const FloatRows& logits, uint32_t num_rows, const Stream& stream) {
  expect_success(choose_experts(logits, shape_.num_experts, num_rows, uses(), stream.get()),
                 "choosing experts");
  if (!has_groups(num_rows)) return;
  for_parts(num_rows, [&](const UsePart& part, const UseGroups& groups) {
    expect_success(group_uses(uses(), shape_.num_experts, part, groups, stream.get()),
                   "ordering rows by expert");
  });
}

void DeviceExperts::gated_multiply(const DeviceMatrix& gate, const DeviceMatrix& up, const ExpertBias& bias,
                                   Nonlinearity nonlinearity, const ReadyRows& in, uint32_t num_rows,
                                   const ReadyRows& out, const Stream& stream) {
  const char* doing = "multiplying by experts' gate and up";
  if (!has_groups(num_rows) || gate.type != up.type || !has_grouped_products(gate.type)) {
    expect_success(
        expert_gated_multiply(gate, up, bias, nonlinearity, in, num_rows, uses(), out, stream.get()), doing);
    return;
  }
  for_parts(num_rows, [&](const UsePart&, const UseGroups& groups) {
    const ReadyRows rows = gathered_like(in);
    expect_success(gather_rows(in, read_by(gate.type), shape_.num_used, groups, rows, stream.get()), doing);
    expect_success(grouped_gated_multiply(gate, up, bias, nonlinearity, rows, groups, out, stream.get()),
                   doing);
  });
}

void DeviceExperts::add_output(const DeviceMatrix& down, const ExpertBias& bias, const ReadyRows& in,
                               uint32_t num_rows, const FloatRows& out, const Stream& stream) {
  const char* doing = "adding up what experts give";
  const uint32_t width = shape_.own_hidden;
  if (!has_groups(num_rows) || !has_grouped_products(down.type)) {
    expect_success(add_expert_output(down, bias, width, in, num_rows, uses(), out, stream.get()), doing);
    return;
  }
  const FloatRows outputs{outputs_.view(), width};
  for_parts(num_rows, [&](const UsePart& part, const UseGroups& groups) {
    const ReadyRows rows = gathered_like(in);
    expect_success(gather_rows(in, read_by(down.type), 1, groups, rows, stream.get()), doing);
    expect_success(grouped_multiply(down, bias, width, rows, groups, part.first_row * shape_.num_used,
                                    outputs, stream.get()),
                   doing);
    expect_success(add_uses(outputs, uses(), part, width, out, stream.get()), doing);
  });
}

}  // namespace runnel
