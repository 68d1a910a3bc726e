// One of the devices that compute a model: its weights, the rows that flow between the operations, its KV
// cache, and its part of each operation (runner/backend/backend.h). With several devices each has some rows
// of every matrix (runner/ranks/shard_plan.h). It computes whole columns of the results, and CudaBackend
// gives them to the others, so that each has all columns of the residual stream and of what products read.
//
// The device must be current (Device::make_current) when a function is called that is not const.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cuda-runner/device/device.h"
#include "cuda-runner/device_activation.h"
#include "cuda-runner/device_experts.h"
#include "cuda-runner/device_logit_rows.h"
#include "cuda-runner/device_weights.h"
#include "cuda-runner/exchange.h"
#include "cuda-runner/kernels/norm.h"
#include "cuda-runner/kernels/rotation.h"
#include "cuda-runner/kv_memory.h"
#include "cuda-runner/rope_tables.h"
#include "cuda-runner/step_inputs.h"
#include "runner/backend/backend.h"
#include "runner/ranks/shard_plan.h"

namespace runnel {

class DeviceRank {
 public:
  // Opens the device. num_threads: see DeviceWeights::create. times: gets those of the parts of the start;
  // may be null. Fails with kNoDevice and kSystem.
  static Result<std::unique_ptr<DeviceRank>> open(int number, KvType kv_type, uint32_t num_threads,
                                                  StartTimes* times);
  DeviceRank(Device device, KvType kv_type) : device_(std::move(device)), kv_type_(kv_type) {}

  const Device& device() const { return device_; }
  Stream& stream() { return stream_; }
  DeviceWeights& weights() { return *weights_; }
  const DeviceWeights& weights() const { return *weights_; }
  uint32_t hidden_width() const { return hidden_->width(); }

  // --- before the weights

  // With several ranks: the part of a model that this one has. The plan must outlive this.
  void share(const ShardPlan& plan, uint32_t rank) {
    plan_ = &plan;
    rank_ = rank;
  }
  // What prepare and allocate_kv will allocate of the device's memory, beside the blocks.
  StepMemory step_memory(const DecoderSpec& spec, const DecoderWidths& widths, const StepLimits& limits,
                         const KvShape& shape) const;
  uint64_t kv_block_bytes(const KvShape& shape) const {
    return KvMemory::block_bytes(own_shape(shape), kv_type_);
  }
  // Rows of the next weight that this rank has; none: all.
  std::vector<RowRange> own_rows(WeightHandle weight) const {
    return is_alone() ? std::vector<RowRange>() : plan_->rows_of(weight, rank_);
  }

  // --- before a step: see Backend

  void load_kernels(const DecoderSpec& spec) const;
  Result<void> prepare(const DecoderSpec& spec, const DecoderWidths& widths, const StepLimits& limits);
  Result<void> allocate_kv(const KvShape& shape);

  // --- one step: count is the number of rows

  // Sends the batch, padded to num_rows rows.
  void begin(const Batch& batch, uint32_t num_rows);
  // Rows whose token this rank has. take_embedded: those that were copied from another rank to staging().
  void embed(const EmbeddingSpec& embedding, uint32_t count);
  void take_embedded(const RowRange& tokens, uint32_t count);
  // is_captured: each sequence has one row. Some launches may then do what others do before them.
  void multiply_qkv(const LayerSpec& layer, uint32_t count, bool is_captured);
  // The norms of queries and keys, each of all heads together. With several ranks, heads() must have them.
  void norm_heads_together(const LayerSpec& layer, uint32_t count);
  void rotate_and_store(const LayerSpec& layer, uint32_t count, bool is_captured);
  void attend(const LayerSpec& layer, uint32_t count, bool is_captured);
  // Makes what all ranks have computed ready for a product.
  void end_attend(uint32_t count) { make_gathered_ready(*attended_, count); }
  void project(const ProjectSpec& project, uint32_t count);
  void end_project(const ProjectSpec& project, uint32_t count);
  void ffn(const FfnSpec& ffn, uint32_t count, bool is_captured);
  void end_ffn(uint32_t num_uses) { make_gathered_ready(*gated_, num_uses); }
  // Sets the rows whose logits are computed next: see DeviceLogitRows::choose.
  void choose(std::span<const HeadRow> rows, std::span<const std::optional<uint32_t>> ahead = {});
  uint32_t num_chosen() const { return logits_->num_chosen(); }
  // The logits of this rank's part of the vocabulary.
  void head(const HeadSpec& head);
  // The logits of all have been copied to logits(): launches the draws.
  void draw(const HeadSpec& head);
  LogitRows& results() { return *logits_; }
  // As begin and choose, for a step ahead. Its batch has numbers of draws of the last launch on the first
  // rank in place of token ids; the other ranks copy what was drawn.
  void begin_ahead(const Batch& batch, uint32_t num_rows, std::span<const HeadRow> rows,
                   const DeviceRank& first);
  // The same as draw.
  void draw_ahead(const HeadSpec& head);
  std::vector<float> read_states(const NormSpec& norm, std::span<const uint32_t> rows);
  std::vector<float> read_rows(Flow flow, uint32_t num_rows);
  std::vector<float> read_kv(const LayerSpec& layer, const BatchSequence& sequence, uint32_t num_positions);

  // --- what is exchanged: where the columns that this rank computes are, and those of all

  DeviceColumns hidden() { return hidden_->columns(); }
  DeviceColumns staging() { return normed_->columns(); }  // free until the first norm
  DeviceColumns qkv() { return qkv_->columns(); }
  DeviceColumns heads() { return heads_->columns(); }  // queries and keys of all, for norm_heads_together
  DeviceColumns own_attended() { return own_attended_->columns(); }
  DeviceColumns attended() { return attended_->columns(); }
  DeviceColumns own_gated() { return own_gated_->columns(); }
  DeviceColumns gated() { return gated_->columns(); }
  DeviceColumns projected() { return projected_->columns(); }
  DeviceColumns logits() { return logits_->columns(); }

 private:
  static constexpr size_t kNumFlows = 10;
  struct FlowSize {
    uint32_t num_rows;  // 0: there is no such flow
    uint32_t width;
  };
  // In the order in which prepare lists them.
  std::array<FlowSize, kNumFlows> flow_sizes(const DecoderSpec& spec, const DecoderWidths& widths,
                                             uint32_t max_rows) const;
  ExpertsShape experts_shape(const DecoderWidths& widths, uint32_t max_rows) const;

  bool is_alone() const { return plan_ == nullptr; }
  RowRange own(RowRange Shard::*dimension, uint32_t width) const {
    return is_alone() ? RowRange{0, width} : (*plan_)[rank_].*dimension;
  }
  AttentionShape own_heads(const AttentionShape& shape) const {
    return is_alone() ? shape : (*plan_)[rank_].own(shape);
  }
  KvShape own_shape(KvShape shape) const;
  // The first rank draws, so it has the logits of all.
  uint32_t own_logits(uint32_t vocab_size) const {
    return rank_ == 0 ? vocab_size : own(&Shard::vocab, vocab_size).count;
  }
  void make_gathered_ready(DeviceActivation& rows, uint32_t count);
  const StackedMatrix& matrix(WeightHandle handle) const { return weights_->matrix(handle); }
  const DeviceVector& vector(WeightHandle handle) const { return weights_->vector(handle); }
  DeviceNorm device_norm(const NormSpec& norm) const;
  HeadNorm head_norm(const QkvSpec& qkv, const NormSpec& norm) const;
  // Launches the computation of angles if it is the first use of them in a step.
  Rotation rotation_of(const QkvSpec& qkv, uint32_t count);
  bool attention_rotates(const LayerSpec& layer, bool is_captured) const;
  ExpertBias expert_bias(WeightHandle bias, size_t size) const;
  // Computes normed_ as the norm of hidden_, or as hidden_ if there is no norm.
  void norm_rows(const NormSpec& norm, uint32_t count);
  // Rows of hidden_ whose norm the product with a matrix of this type computes for itself, if it can.
  std::optional<NormedRows> rows_to_norm(const NormSpec& norm, TensorType type, uint32_t count,
                                         bool is_captured);
  // Computes the input of the output matrix as the norm of the chosen rows of hidden_.
  void norm_chosen(const NormSpec& norm);
  void cap_logits(const HeadSpec& head);
  // Nothing if there is none.
  Global<const float> bias_view(WeightHandle bias, uint32_t size) const;
  void multiply_parts(const StackedMatrix& parts, const ReadyRows& in, uint32_t count, WeightHandle bias,
                      Epilogue epilogue, const FloatRows& out);

  const Device device_;
  Stream stream_;
  const KvType kv_type_;
  std::optional<DeviceWeights> weights_;
  const ShardPlan* plan_ = nullptr;  // null: this rank has all
  uint32_t rank_ = 0;
  const DecoderSpec* spec_ = nullptr;  // set by prepare

  // The values that pass between the operations; set by prepare.
  std::optional<DeviceActivation> hidden_;  // the residual stream
  std::optional<DeviceActivation> normed_;
  std::optional<DeviceActivation> qkv_;  // of this rank's heads
  std::optional<DeviceActivation> attended_;
  std::optional<DeviceActivation> gated_;      // with experts, a row for each use
  std::optional<DeviceActivation> projected_;  // results of products, before the norm that follows
  std::optional<DeviceActivation> router_logits_;
  // Only with several ranks: what this one computes of attended_ and gated_, and the queries and keys of all.
  std::optional<DeviceActivation> own_attended_;
  std::optional<DeviceActivation> own_gated_;
  std::optional<DeviceActivation> heads_;
  std::optional<DeviceExperts> experts_;  // only for models with experts
  std::optional<DeviceLogitRows> logits_;
  DeviceBuffer<uint32_t> drawn_;  // what the first rank has drawn, on another one

  std::optional<KvMemory> cache_;
  StepInputs inputs_;
  RopeTables ropes_;
  DeviceBuffer<float> attend_results_;
  DeviceBuffer<uint32_t> attend_arrivals_;
  uint32_t max_rows_ = 0;
  uint32_t max_positions_ = 0;
};

}  // namespace runnel
