#include "cuda-runner/device_rank.h"

#include <algorithm>
#include <array>
#include <utility>

#include "cuda-runner/device/error.h"
#include "cuda-runner/kernels/attend.h"
#include "cuda-runner/kernels/embed.h"
#include "cuda-runner/kernels/feed.h"
#include "cuda-runner/kernels/make_ready.h"
#include "cuda-runner/kernels/rope_store.h"
#include "cuda-runner/kernels/soft_cap.h"
#include "cuda-runner/load_kernels.h"
#include "runner/check.h"
#include "runner/system/start_times.h"

namespace runnel {
namespace {

// What attention needs to know of steps: a shape without its scale and window, and the limits of steps.
struct AttendSizes {
  AttentionShape shape;
  AttendLimits limits;
};

AttendSizes attend_sizes(const KvShape& shape, uint32_t max_rows) {
  return {{shape.num_heads, shape.num_kv_heads, shape.head_dim, 1.0f},
          {max_rows, shape.max_positions, uint64_t{shape.num_blocks} * shape.block_size}};
}

StepInputsShape inputs_shape(const DecoderSpec& spec, const KvShape& shape, const AttendSizes& attend) {
  StepInputsShape inputs{attend.limits.max_rows, num_kv_groups(spec), KvMemory::max_table_blocks(shape), {}};
  for (const LayerSpec& layer : spec.layers) {
    const uint32_t window = layer.attention.window;
    if (std::ranges::find(inputs.attend_plans, window, &AttendPlanShape::window) != inputs.attend_plans.end())
      continue;
    inputs.attend_plans.push_back({window, attend_groups(attend.shape), shape.num_heads, shape.num_kv_heads,
                                   attend_tile_rows(attend.shape), attend.limits.max_rows,
                                   max_cut_splits(attend.shape, attend.limits)});
  }
  return inputs;
}

uint32_t width_of_queries_and_keys(const AttentionShape& shape) {
  return (shape.num_heads + shape.num_kv_heads) * shape.head_dim;
}

}  // namespace

Result<std::unique_ptr<DeviceRank>> DeviceRank::open(int number, KvType kv_type, uint32_t num_threads,
                                                     StartTimes* times) {
  Result<Device> device = Device::open(number, times);
  if (!device) return device.error();
  auto rank = std::make_unique<DeviceRank>(*std::move(device), kv_type);
  Result<DeviceWeights> weights = DeviceWeights::create(rank->stream_, num_threads);
  if (!weights) return weights.error();
  rank->weights_.emplace(*std::move(weights));
  return rank;
}

// --- before the weights

KvShape DeviceRank::own_shape(KvShape shape) const {
  shape.num_heads = own(&Shard::heads, shape.num_heads).count;
  shape.num_kv_heads = own(&Shard::kv_heads, shape.num_kv_heads).count;
  return shape;
}

std::array<DeviceRank::FlowSize, DeviceRank::kNumFlows> DeviceRank::flow_sizes(const DecoderSpec& spec,
                                                                               const DecoderWidths& widths,
                                                                               uint32_t max_rows) const {
  const LayerSpec& layer = spec.layers.front();
  const AttentionShape heads = own_heads(layer.attention);
  const uint32_t num_uses = max_rows * std::max(widths.experts.num_used, 1u);
  const uint32_t rows_of_several = is_alone() ? 0 : max_rows;
  return {
      {{max_rows, widths.hidden},
       {max_rows, widths.hidden},
       {max_rows, width_of_queries_and_keys(heads) + heads.num_kv_heads * heads.head_dim},
       {max_rows, widths.attended},
       {num_uses, widths.gated},
       {widths.has_output_norm ? max_rows : 0, widths.hidden},
       {widths.experts.num_experts > 0 ? max_rows : 0, widths.experts.num_experts},
       {rows_of_several, heads.num_heads * heads.head_dim},
       {is_alone() ? 0 : num_uses, own(&Shard::gated, widths.gated).count},
       {layer.qkv.norms_heads_together ? rows_of_several : 0, width_of_queries_and_keys(layer.attention)}}};
}

ExpertsShape DeviceRank::experts_shape(const DecoderWidths& widths, uint32_t max_rows) const {
  return {.max_rows = max_rows,
          .num_experts = widths.experts.num_experts,
          .num_used = widths.experts.num_used,
          .hidden = widths.hidden,
          .gated = widths.gated,
          .own_hidden = own(&Shard::hidden, widths.hidden).count};
}

StepMemory DeviceRank::step_memory(const DecoderSpec& spec, const DecoderWidths& widths,
                                   const StepLimits& limits, const KvShape& whole) const {
  StepMemory memory{};
  for (const FlowSize& flow : flow_sizes(spec, widths, limits.max_rows))
    memory.rows += DeviceActivation(flow.num_rows, flow.width).num_bytes();
  if (widths.experts.num_experts > 0)
    memory.rows += DeviceExperts(experts_shape(widths, limits.max_rows)).num_bytes();
  memory.rows += RopeTables::bytes(limits.max_rows, spec.ropes);
  const KvShape shape = own_shape(whole);
  const AttendSizes attend = attend_sizes(shape, limits.max_rows);
  memory.attention = StepInputs::bytes(inputs_shape(spec, shape, attend)) +
                     device_bytes(attend_result_floats(attend.shape, attend.limits), sizeof(float)) +
                     device_bytes(attend_arrivals(attend.shape, attend.limits), sizeof(uint32_t)) +
                     kv_block_bytes(whole);  // the spare block
  memory.logits =
      DeviceLogitRows::bytes(limits.max_head_rows, widths.hidden, own_logits(spec.head.vocab_size));
  if (rank_ != 0) memory.logits += device_bytes(limits.max_head_rows, sizeof(uint32_t));
  return memory;
}

// --- before a step

void DeviceRank::load_kernels(const DecoderSpec& spec) const {
  runnel::load_kernels(spec, own_heads(spec.layers.front().attention), weights_->matrix_types(), kv_type_);
}

Result<void> DeviceRank::prepare(const DecoderSpec& spec, const DecoderWidths& widths,
                                 const StepLimits& limits) {
  CHECK(limits.max_rows > 0 && limits.max_head_rows > 0 && !logits_);
  max_rows_ = limits.max_rows;
  const std::array flows = {&hidden_,    &normed_,        &qkv_,          &attended_,  &gated_,
                            &projected_, &router_logits_, &own_attended_, &own_gated_, &heads_};
  const auto sizes = flow_sizes(spec, widths, max_rows_);
  for (size_t i = 0; i < flows.size(); ++i) {
    if (sizes[i].num_rows == 0) continue;
    if (const auto allocated = flows[i]->emplace(sizes[i].num_rows, sizes[i].width).allocate(stream_);
        !allocated)
      return allocated;
  }
  if (widths.experts.num_experts > 0) {
    const Result<void> allocated = experts_.emplace(experts_shape(widths, max_rows_)).allocate(stream_);
    if (!allocated) return allocated;
  }
  spec_ = &spec;
  Result<DeviceLogitRows> logits = DeviceLogitRows::allocate(limits.max_head_rows, widths.hidden,
                                                             own_logits(spec.head.vocab_size), stream_);
  if (!logits) return logits.error();
  logits_.emplace(*std::move(logits));
  return rank_ == 0 ? Result<void>() : allocate("drawn ids", Wanted{drawn_, limits.max_head_rows});
}

Result<void> DeviceRank::allocate_kv(const KvShape& whole) {
  const KvShape shape = own_shape(whole);
  CHECK(shape.num_heads > 0);
  stream_.synchronize();
  // All of it is freed first, to make room for the new one.
  cache_.reset();
  inputs_ = StepInputs();
  attend_results_ = DeviceBuffer<float>();
  attend_arrivals_ = DeviceBuffer<uint32_t>();
  Result<KvMemory> cache = KvMemory::allocate(shape, kv_type_, stream_);
  if (!cache) return cache.error();
  cache_.emplace(*std::move(cache));
  const AttendSizes attend = attend_sizes(shape, max_rows_);
  StepInputsShape sizes = inputs_shape(*spec_, shape, attend);
  for (AttendPlanShape& plan : sizes.attend_plans) plan.num_blocks = attend_blocks(kv_type_, attend.shape);
  Result<StepInputs> inputs = StepInputs::allocate(sizes, stream_);
  if (!inputs) return inputs.error();
  inputs_ = *std::move(inputs);
  Result<RopeTables> ropes = RopeTables::allocate(max_rows_, spec_->ropes, stream_);
  if (!ropes) return ropes.error();
  ropes_ = *std::move(ropes);
  max_positions_ = shape.max_positions;
  const Result<void> allocated =
      allocate_all("attention's intermediate results",
                   Wanted{attend_results_, attend_result_floats(attend.shape, attend.limits)},
                   Wanted{attend_arrivals_, attend_arrivals(attend.shape, attend.limits)});
  if (!allocated) return allocated;
  stream_.fill_with_zeros(attend_arrivals_);
  return {};
}

// --- one step

void DeviceRank::begin(const Batch& batch, uint32_t num_rows) {
  CHECK(cache_);
  ropes_.start_step();
  inputs_.send(batch, num_rows, cache_->spare_block(), stream_);
}

void DeviceRank::embed(const EmbeddingSpec& embedding, uint32_t count) {
  const StackedMatrix& table = matrix(embedding.table);
  CHECK(table.size() == 1 && table[0].columns == hidden_->width());
  EmbeddingTables tables{.tokens = table[0].view(),
                         .scale = embedding.scale,
                         .first_token = own(&Shard::vocab, table[0].rows).first};
  if (embedding.positions) {
    tables.has_positions = true;
    tables.positions = matrix(embedding.positions)[0].view();
    CHECK(tables.positions.columns == hidden_->width());
  }
  expect_success(runnel::embed(tables, inputs_.token_ids(), inputs_.positions(), count, hidden_->floats(),
                               stream_.get()),
                 "looking up embeddings");
}

void DeviceRank::take_embedded(const RowRange& tokens, uint32_t count) {
  expect_success(take_rows_of(tokens.first, tokens.count, inputs_.token_ids(), normed_->floats(), count,
                              hidden_->width(), hidden_->floats(), stream_.get()),
                 "taking embeddings");
}

DeviceNorm DeviceRank::device_norm(const NormSpec& norm) const {
  const bool is_centred = norm.kind == NormKind::kLayer;
  return {vector(norm.gain).view(), norm.epsilon, is_centred,
          is_centred ? vector(norm.bias).view() : Global<const float>()};
}

void DeviceRank::norm_rows(const NormSpec& norm, uint32_t count) {
  if (!norm) {
    expect_success(make_ready(hidden_->floats(), count, normed_->ready(), stream_.get()), "copying rows");
    return;
  }
  CHECK(vector(norm.gain).size() == hidden_->width());
  expect_success(
      runnel::norm(hidden_->floats(), {}, false, count, device_norm(norm), normed_->ready(), stream_.get()),
      "computing a norm");
}

std::optional<NormedRows> DeviceRank::rows_to_norm(const NormSpec& norm, TensorType type, uint32_t count,
                                                   bool is_captured) {
  if (!is_captured || !norm || norm.kind != NormKind::kRms || !computes_norms(type, hidden_->width(), count))
    return std::nullopt;
  CHECK(vector(norm.gain).size() == hidden_->width());
  return NormedRows{hidden_->floats(), vector(norm.gain).view(), norm.epsilon};
}

Global<const float> DeviceRank::bias_view(WeightHandle bias, uint32_t size) const {
  CHECK(!bias || vector(bias).size() == size);
  return bias ? vector(bias).view() : Global<const float>(nullptr, 0);
}

void DeviceRank::multiply_parts(const StackedMatrix& parts, const ReadyRows& in, uint32_t count,
                                WeightHandle bias, Epilogue epilogue, const FloatRows& out) {
  CHECK(parts[0].columns == in.width);
  const Global<const float> biases = bias_view(bias, rows_of(parts));
  uint32_t first_output = 0;
  for (const UploadedMatrix& part : parts) {
    expect_success(multiply(part.view(), in, count, biases, static_cast<bool>(bias), epilogue, out,
                            first_output, stream_.get()),
                   "multiplying by a matrix");
    first_output += part.rows;
  }
}

void DeviceRank::multiply_qkv(const LayerSpec& layer, uint32_t count, bool is_captured) {
  const StackedMatrix& weight = matrix(layer.qkv.weight);
  CHECK(rows_of(weight) == qkv_->width());
  const auto in = rows_to_norm(layer.qkv.norm, weight[0].type, count, is_captured && weight.size() == 1);
  if (in) {
    expect_success(multiply(weight[0].view(), *in, count, bias_view(layer.qkv.bias, rows_of(weight)),
                            static_cast<bool>(layer.qkv.bias), qkv_->floats(), stream_.get()),
                   "multiplying norms by a matrix");
    return;
  }
  norm_rows(layer.qkv.norm, count);
  multiply_parts(weight, normed_->ready(), count, layer.qkv.bias, Epilogue::kReplace, qkv_->floats());
}

void DeviceRank::norm_heads_together(const LayerSpec& layer, uint32_t count) {
  const AttentionShape& shape = layer.attention;
  const NormedColumns queries{0, shape.num_heads * shape.head_dim, device_norm(layer.qkv.query_norm)};
  const NormedColumns keys{queries.width, shape.num_kv_heads * shape.head_dim,
                           device_norm(layer.qkv.key_norm)};
  CHECK(vector(layer.qkv.query_norm.gain).size() == queries.width);
  CHECK(vector(layer.qkv.key_norm.gain).size() == keys.width);
  expect_success(norm_columns((is_alone() ? qkv_ : heads_)->floats(), count, queries, keys, stream_.get()),
                 "computing norms of queries and keys");
}

HeadNorm DeviceRank::head_norm(const QkvSpec& qkv, const NormSpec& norm) const {
  return norm && !qkv.norms_heads_together ? HeadNorm{true, vector(norm.gain).view(), norm.epsilon}
                                           : HeadNorm{};
}

Rotation DeviceRank::rotation_of(const QkvSpec& qkv, uint32_t count) {
  const Rope& rope = spec_->ropes.at(qkv.rope).pairs;
  return {rope,
          {head_norm(qkv, qkv.query_norm), head_norm(qkv, qkv.key_norm)},
          ropes_.angles(qkv.rope, inputs_.positions(), count, stream_)};
}

bool DeviceRank::attention_rotates(const LayerSpec& layer, bool is_captured) const {
  return is_captured && attend_rotates(own_heads(layer.attention));
}

void DeviceRank::rotate_and_store(const LayerSpec& layer, uint32_t count, bool is_captured) {
  const Rope& rope = spec_->ropes.at(layer.qkv.rope).pairs;
  CHECK(rope.rotary_dim <= layer.attention.head_dim && rope.rotary_dim % 2 == 0);
  const Rotation rotation = rotation_of(layer.qkv, count);
  if (attention_rotates(layer, is_captured)) return;
  expect_success(rope_store(own_heads(layer.attention), rotation, inputs_.rows(layer.kv.group), count,
                            qkv_->floats(), cache_->view(), layer.kv.layer, stream_.get()),
                 "storing keys and values");
}

void DeviceRank::attend(const LayerSpec& layer, uint32_t count, bool is_captured) {
  const AttendInputs inputs{own_heads(layer.attention),
                            layer.kv.layer,
                            count,
                            inputs_.rows(layer.kv.group),
                            inputs_.attend_work(layer.attention.window),
                            qkv_->floats(),
                            cache_->view(),
                            attention_rotates(layer, is_captured),
                            rotation_of(layer.qkv, count),
                            static_cast<bool>(layer.sinks),
                            layer.sinks ? vector(layer.sinks).view() : Global<const float>()};
  CHECK(!layer.sinks || vector(layer.sinks).size() == inputs.shape.num_heads);
  DeviceActivation& out = is_alone() ? *attended_ : *own_attended_;
  expect_success(runnel::attend(inputs, max_positions_, {attend_results_.view(), attend_arrivals_.view()},
                                out.ready(), stream_.get()),
                 "computing attention");
}

void DeviceRank::make_gathered_ready(DeviceActivation& rows, uint32_t count) {
  if (is_alone()) return;
  expect_success(make_ready(rows.floats(), count, rows.ready(), stream_.get()), "copying rows");
}

// size: of the bias, if there is one.
ExpertBias DeviceRank::expert_bias(WeightHandle bias, size_t size) const {
  if (!bias) return {};
  CHECK(vector(bias).size() == size);
  return {true, vector(bias).view()};
}

void DeviceRank::project(const ProjectSpec& project, uint32_t count) {
  const StackedMatrix& weight = matrix(project.weight);
  const RowRange columns = own(&Shard::hidden, hidden_->width());
  CHECK(rows_of(weight) == columns.count * std::max(project.experts.num_experts, 1u));
  if (project.experts.num_experts > 0) {
    experts_->add_output(weight[0].view(), expert_bias(project.bias, rows_of(weight)), gated_->ready(), count,
                         hidden_->floats(columns.first), stream_);
    return;
  }
  DeviceActivation& in = project.input == ProjectInput::kAttended ? *attended_ : *gated_;
  DeviceActivation& out = project.norm ? *projected_ : *hidden_;
  multiply_parts(weight, in.ready(), count, project.bias, project.norm ? Epilogue::kReplace : Epilogue::kAdd,
                 out.floats(columns.first));
}

void DeviceRank::end_project(const ProjectSpec& project, uint32_t count) {
  if (!project.norm) return;
  expect_success(add_normed(projected_->floats(), count, hidden_->width(), device_norm(project.norm),
                            hidden_->floats(), stream_.get()),
                 "adding a norm");
}

void DeviceRank::ffn(const FfnSpec& ffn, uint32_t count, bool is_captured) {
  const StackedMatrix& weight = matrix(ffn.gate_up);
  DeviceActivation& out = is_alone() ? *gated_ : *own_gated_;
  const uint32_t num_rows = out.width() * std::max(ffn.experts.num_experts, 1u);
  CHECK(rows_of(weight) == (ffn.has_gate ? 2 : 1) * num_rows && weight[0].columns == normed_->width());
  CHECK(!ffn.bias || ffn.experts.num_experts > 0 || !ffn.has_gate);
  const DeviceMatrix gate = part_of(weight, 0, num_rows);
  const DeviceMatrix up = ffn.has_gate ? part_of(weight, num_rows, num_rows) : gate;
  const bool is_one_launch = ffn.experts.num_experts == 0 && ffn.has_gate && gate.type == up.type;
  if (const auto in = rows_to_norm(ffn.norm, gate.type, count, is_captured && is_one_launch)) {
    expect_success(gated_multiply(gate, up, ffn.nonlinearity, *in, count, out.ready(), stream_.get()),
                   "multiplying norms by gate and up");
    return;
  }
  norm_rows(ffn.norm, count);
  if (ffn.experts.num_experts > 0) {
    multiply_parts(matrix(ffn.experts.router), normed_->ready(), count, ffn.experts.router_bias,
                   Epilogue::kReplace, router_logits_->floats());
    experts_->choose(router_logits_->floats(), count, stream_);
    experts_->gated_multiply(gate, up, expert_bias(ffn.bias, rows_of(weight)), ffn.nonlinearity,
                             normed_->ready(), count, out.ready(), stream_);
  } else if (ffn.has_gate) {
    expect_success(
        gated_multiply(gate, up, ffn.nonlinearity, normed_->ready(), count, out.ready(), stream_.get()),
        "multiplying by gate and up");
  } else {
    expect_success(activated_multiply(up, bias_view(ffn.bias, num_rows), static_cast<bool>(ffn.bias),
                                      ffn.nonlinearity, normed_->ready(), count, out.ready(), stream_.get()),
                   "multiplying without a gate");
  }
}

void DeviceRank::choose(std::span<const HeadRow> rows, std::span<const std::optional<uint32_t>> ahead) {
  CHECK(logits_ && !rows.empty());
  CHECK(std::ranges::all_of(rows, [&](const HeadRow& row) { return row.row < hidden_->max_rows(); }));
  logits_->choose(rows, ahead);
}

void DeviceRank::head(const HeadSpec& head) {
  const StackedMatrix& output = matrix(head.weight);
  CHECK(rows_of(output) == own(&Shard::vocab, head.vocab_size).count);
  norm_chosen(head.norm);
  multiply_parts(output, logits_->input().ready(), num_chosen(), {}, Epilogue::kReplace, logits_->logits());
}

void DeviceRank::draw(const HeadSpec& head) {
  cap_logits(head);
  logits_->launch(inputs_.positions());
}

void DeviceRank::cap_logits(const HeadSpec& head) {
  CHECK(logits_->vocab_size() == head.vocab_size);
  if (head.softcap == 0.0f) return;
  expect_success(
      soft_cap(logits_->logits(), num_chosen(), logits_->vocab_size(), head.softcap, stream_.get()),
      "capping logits");
}

void DeviceRank::begin_ahead(const Batch& batch, uint32_t num_rows, std::span<const HeadRow> rows,
                             const DeviceRank& first) {
  begin(batch, num_rows);
  logits_->choose_ahead(rows);
  const DeviceBuffer<uint32_t>* drawn = &first.logits_->last_drawn();
  if (&first == this) {
    logits_->send_draws();
  } else {
    const uint32_t num_drawn = first.logits_->num_last_drawn();
    stream_.copy_rows(drawn_, 0, num_drawn, *drawn, 0, num_drawn, num_drawn, 1);
    drawn = &drawn_;
  }
  expect_success(feed(drawn->view(), inputs_.fed_ids(), batch.num_rows(), stream_.get()),
                 "feeding drawn tokens");
}

void DeviceRank::draw_ahead(const HeadSpec& head) {
  cap_logits(head);
  logits_->launch_ahead(inputs_.positions());
}

void DeviceRank::norm_chosen(const NormSpec& norm) {
  CHECK(vector(norm.gain).size() == hidden_->width());
  expect_success(runnel::norm(hidden_->floats(), logits_->chosen(), true, num_chosen(), device_norm(norm),
                              logits_->input().ready(), stream_.get()),
                 "computing a norm");
}

std::vector<float> DeviceRank::read_states(const NormSpec& norm, std::span<const uint32_t> rows) {
  std::vector<HeadRow> chosen;
  for (const uint32_t row : rows) chosen.push_back({.row = row});
  choose(chosen);
  norm_chosen(norm);
  return logits_->input().read(static_cast<uint32_t>(rows.size()), stream_);
}

std::vector<float> DeviceRank::read_rows(Flow flow, uint32_t num_rows) {
  const std::pair<Flow, const DeviceActivation*> flows[] = {{Flow::kHidden, &*hidden_},
                                                            {Flow::kNormed, &*normed_},
                                                            {Flow::kQkv, &*qkv_},
                                                            {Flow::kAttended, &*attended_},
                                                            {Flow::kGated, &*gated_}};
  return std::ranges::find(flows, flow, &std::pair<Flow, const DeviceActivation*>::first)
      ->second->read(num_rows, stream_);
}

std::vector<float> DeviceRank::read_kv(const LayerSpec& layer, const BatchSequence& sequence,
                                       uint32_t num_positions) {
  CHECK(cache_);
  return cache_->read(layer.kv.layer, sequence.block_tables[layer.kv.group], num_positions, stream_);
}

}  // namespace runnel
