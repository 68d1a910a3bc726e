#include "cpu-runner/cpu_backend.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cpu-runner/attention/attention.h"
#include "cpu-runner/attention/kv_cache.h"
#include "cpu-runner/attention/rope_angles.h"
#include "cpu-runner/cpu_device.h"
#include "cpu-runner/isa.h"
#include "cpu-runner/kernels/kernels.h"
#include "cpu-runner/matrix/activation.h"
#include "cpu-runner/matrix/cpu_weights.h"
#include "cpu-runner/matrix/expert_rows.h"
#include "cpu-runner/matrix/gather.h"
#include "cpu-runner/matrix/matrix.h"
#include "cpu-runner/matrix/product.h"
#include "cpu-runner/rank_share.h"
#include "cpu-runner/sampling/drawn_rows.h"
#include "cpu-runner/thread_pool.h"
#include "runner/check.h"

namespace runnel {
namespace {

class CpuBackend final : public Backend, private FlowReader {
 public:
  CpuBackend(const Kernels& kernels, std::shared_ptr<ThreadPool> threads, const BackendOptions& options)
      : threads_(std::move(threads)),
        kernels_(kernels),
        executor_{kernels_, *threads_, options.activations},
        device_(executor_, options.num_ranks),
        kv_type_(options.kv_type),
        share_(options.ranks),
        weights_(options.weights_file, *threads_) {}

  ComputeDevice& device() override { return device_; }
  // Every table of kernels and every weight type computes the sums of docs/numerics.md, so they share one
  // name.
  std::string numerics_id() const override { return runnel::numerics_id(executor_.activations, kv_type_); }

  Result<uint64_t> matrix_bytes(std::span<const TensorView> stacked) const override {
    return CpuWeights::matrix_bytes(stacked);
  }
  uint64_t kv_block_bytes(const KvShape& shape) const override {
    return KvCache::block_bytes(shape, kv_type_);
  }
  Result<StepMemory> step_memory(const DecoderSpec& spec, const StepLimits& limits,
                                 const KvShape& shape) const override;

  Result<void> share(const DecoderSpec& spec) override { return share_.plan(spec, num_ranks()); }
  Result<void> expect_weights(uint64_t bytes, const std::string& identity) override {
    return weights_.expect(bytes / num_ranks(), identity);
  }
  bool needs_values() const override { return weights_.needs_values(); }
  Result<WeightHandle> load_matrix(std::span<const TensorView> stacked) override {
    return weights_.add_matrix(stacked, share_.rows_of(weights_.next()));
  }
  Result<WeightHandle> load_vector(const std::string&, std::span<const float> values) override {
    return weights_.add_vector(values, share_.rows_of(weights_.next()));
  }
  Result<void> prepare(const DecoderSpec& spec, const StepLimits& limits) override;
  Result<void> allocate_kv(const KvShape& shape) override;
  uint64_t weights_bytes() const override { return weights_.num_bytes(); }

  // Each operation is complete when it returns.
  void begin_forward(const Batch&) override {}
  void end_forward() override {}
  void embed(const Batch& batch, const EmbeddingSpec& embedding) override;
  void qkv(const Batch& batch, const LayerSpec& layer) override;
  void attend(const Batch& batch, const LayerSpec& layer) override;
  void project(const Batch& batch, const ProjectSpec& project) override;
  void ffn(const Batch& batch, const FfnSpec& ffn) override;
  LogitRows& head(const HeadSpec& head, std::span<const HeadRow> rows) override;
  std::vector<float> read_states(const NormSpec& norm, std::span<const uint32_t> rows) override;
  FlowReader& flows() override { return *this; }

 private:
  std::vector<float> read_rows(Flow flow, uint32_t num_rows) override;
  std::vector<float> read_kv(const LayerSpec& layer, const BatchSequence& sequence,
                             uint32_t num_positions) override {
    CHECK(has_cache_ && share_.is_whole());
    return cache_.read(layer.kv.layer, sequence.block_tables[layer.kv.group], num_positions);
  }

  uint32_t num_ranks() const { return device_.num_ranks(); }
  // Computes the norm of one row, or copies the row if there is no norm, and makes it ready for a product.
  void norm_row(const float* in, const NormSpec& norm, Activation& out, uint32_t row) const {
    if (!norm) {
      std::copy_n(in, out.width(), out.row(row));
    } else if (norm.kind == NormKind::kRms) {
      rms_norm(in, norm, out.width(), out.row(row));
    } else {
      layer_norm(in, norm, out.width(), out.row(row));
    }
    make_ready(executor_, out, row);
  }
  void layer_norm(const float* in, const NormSpec& norm, uint32_t width, float* out) const {
    const std::span<const float> gain = weights_.vector(norm.gain);
    const std::span<const float> norm_bias = weights_.vector(norm.bias);
    CHECK(norm.kind == NormKind::kLayer && gain.size() == width && norm_bias.size() == width);
    kernels_.layer_norm(in, gain.data(), norm_bias.data(), width, norm.epsilon, out);
  }
  // Replaces rows of hidden_ by their norms.
  void norm_hidden(uint32_t num_rows, const NormSpec& norm) {
    for_each_row(num_rows, [&](uint32_t row) {
      layer_norm(hidden_.row(row), norm, hidden_.width(), hidden_.row(row));
    });
  }
  void rms_norm(const float* in, const NormSpec& norm, uint32_t width, float* out) const {
    const std::span<const float> gain = weights_.vector(norm.gain);
    CHECK(norm.kind == NormKind::kRms && gain.size() == width);
    kernels_.norm(in, gain.data(), width, norm.epsilon, out);
  }
  // Replaces the queries and keys of each row by their norms, each of all heads of the layer together.
  void norm_heads_together(uint32_t num_rows, const LayerSpec& layer);
  HeadNorm head_norm(const NormSpec& norm) const {
    CHECK(norm.kind == NormKind::kRms);
    return norm ? HeadNorm{weights_.vector(norm.gain), norm.epsilon} : HeadNorm{};
  }
  // hidden = hidden + norm of the product's rows in projected_.
  void add_normed_rows(uint32_t num_rows, const NormSpec& norm) {
    for_each_row(num_rows, [&](uint32_t row) {
      float* values = projected_.row(row);
      rms_norm(values, norm, hidden_.width(), values);
      float* to = hidden_.row(row);
      for (uint32_t i = 0; i < hidden_.width(); ++i) to[i] = values[i] + to[i];
    });
  }
  void norm_rows(uint32_t num_rows, const NormSpec& norm) {
    for_each_row(num_rows, [&](uint32_t row) { norm_row(hidden_.row(row), norm, normed_, row); });
  }
  // Calls fn(row) for rows below num_rows.
  template <typename Fn>
  void for_each_row(uint32_t num_rows, const Fn& fn) {
    for_each_of(*threads_, num_rows, fn);
  }
  // With several ranks, gives all of them the columns of each. dimension: what is divided among them, in
  // columns of width. own has this rank's columns of activation alone, or is activation.
  void gather(const Activation& own, RowRange Shard::*dimension, uint32_t width, uint32_t num_rows,
              Activation& activation) {
    if (share_.is_whole()) return;
    const std::vector<RowRange> columns = share_.columns_of_all(dimension, width);
    const bool is_part = &own != &activation;
    const float* first = own.row(0) + (is_part ? 0 : columns[share_.group()->rank()].first);
    gather_columns(executor_, *share_.group(), columns, {first, own.stride()}, num_rows, is_part, activation);
  }

  const std::shared_ptr<ThreadPool> threads_;
  const Kernels& kernels_;
  const Executor executor_;
  CpuDevice device_;
  const KvType kv_type_;

  RankShare share_;
  CpuWeights weights_;
  // (max_rows, width): what flows between the operations.
  Activation hidden_;  // the residual stream
  Activation normed_;
  Activation qkv_;
  Activation attended_;
  Activation gated_;
  Activation projected_;  // results of products that a norm follows
  // With several ranks, the columns of attended_ and gated_ that this rank computes.
  Activation own_attended_;
  Activation own_gated_;
  ExpertRows experts_;  // for models with experts
  KvCache cache_;
  AttentionWorkspace attention_;
  bool has_cache_ = false;
  const DecoderSpec* spec_ = nullptr;  // set by prepare
  std::vector<RopeAngles> angles_;     // one for each rope of spec_
  Activation head_input_;              // (max_head_rows, hidden)
  std::optional<DrawnRows> logits_;
};

Result<StepMemory> CpuBackend::step_memory(const DecoderSpec& spec, const StepLimits& limits,
                                           const KvShape& shape) const {
  const Result<DecoderWidths> widths = widths_of(spec);
  if (!widths) return widths.error();
  StepMemory memory{};
  const uint32_t num_nodes = threads_->num_nodes();
  for (const uint32_t width : {widths->hidden, widths->qkv, widths->has_output_norm ? widths->hidden : 0})
    memory.rows += Activation::bytes(limits.max_rows, width);
  for (const uint32_t width : {widths->hidden, widths->attended})
    memory.rows += Activation::bytes(limits.max_rows, width, num_nodes);
  memory.rows += widths->experts.num_experts > 0
                     ? ExpertRows::bytes(limits.max_rows, *widths, num_nodes)
                     : Activation::bytes(limits.max_rows, widths->gated, num_nodes);
  for (const RopeSpec& rope : spec.ropes)
    memory.rows += uint64_t{limits.max_rows} * rope.pairs.rotary_dim * sizeof(float);
  memory.attention = AttentionWorkspace::bytes(shape, threads_->num_threads(), limits.max_rows);
  memory.logits = num_ranks() * Activation::bytes(limits.max_head_rows, widths->hidden, num_nodes) +
                  DrawnRows::bytes(*threads_, limits.max_head_rows, spec.head.vocab_size);
  if (num_ranks() == 1) return memory;
  // Every rank has the rows of all, and two boards hold them once more. The first rank draws; the logits of
  // the others come to it on the boards.
  constexpr uint64_t kBoards = 2;
  memory.rows *= num_ranks() + 1;
  memory.logits += kBoards * limits.max_head_rows * spec.head.vocab_size * sizeof(float);
  return memory;
}

Result<void> CpuBackend::prepare(const DecoderSpec& spec, const StepLimits& limits) {
  CHECK(limits.max_rows > 0 && limits.max_head_rows > 0 && !logits_);
  CHECK((num_ranks() > 1) == (!share_.is_whole()));
  if (const auto finished = weights_.finish(); !finished) return finished;
  const Result<DecoderWidths> widths = widths_of(spec);
  if (!widths) return widths.error();
  hidden_ = Activation(limits.max_rows, widths->hidden);
  normed_ = Activation(limits.max_rows, widths->hidden, *threads_);
  const AttentionShape heads = share_.heads_of(spec.layers.front().attention);
  qkv_ = Activation(limits.max_rows, (heads.num_heads + 2 * heads.num_kv_heads) * heads.head_dim);
  attended_ = Activation(limits.max_rows, widths->attended, *threads_);
  if (widths->has_output_norm) projected_ = Activation(limits.max_rows, widths->hidden);
  if (!share_.is_whole()) {
    own_attended_ = Activation(limits.max_rows, heads.num_heads * heads.head_dim);
    own_gated_ = Activation(limits.max_rows, share_.columns_of(&Shard::gated, widths->gated).count);
    if (const auto checked = RankShare::check_boards(*widths, limits, spec.head.vocab_size); !checked)
      return checked;
  }
  if (widths->experts.num_experts > 0)
    experts_ = ExpertRows(limits.max_rows, *widths, share_.columns_of(&Shard::hidden, widths->hidden).count,
                          share_.columns_of(&Shard::gated, widths->gated).count, *threads_);
  else
    gated_ = Activation(limits.max_rows, widths->gated, *threads_);
  spec_ = &spec;
  angles_.resize(spec.ropes.size());
  head_input_ = Activation(limits.max_head_rows, widths->hidden, *threads_);
  logits_.emplace(kernels_.draw, *threads_, limits.max_head_rows, spec.head.vocab_size);
  return {};
}

Result<void> CpuBackend::allocate_kv(const KvShape& shape) {
  const RowRange kv_heads = share_.columns_of(&Shard::kv_heads, shape.num_kv_heads);
  Result<KvCache> cache =
      KvCache::allocate(shape, kv_type_, kv_heads.first, /*has_all_heads=*/share_.is_whole());
  if (!cache) return cache.error();
  KvShape of_rank = shape;
  of_rank.num_heads = share_.columns_of(&Shard::heads, shape.num_heads).count;
  of_rank.num_kv_heads = kv_heads.count;
  Result<AttentionWorkspace> workspace =
      AttentionWorkspace::allocate(of_rank, threads_->num_threads(), attended_.max_rows());
  if (!workspace) return workspace.error();
  cache_ = *std::move(cache);
  attention_ = *std::move(workspace);
  has_cache_ = true;
  return {};
}

void CpuBackend::embed(const Batch& batch, const EmbeddingSpec& embedding) {
  const StackedMatrix& table = weights_.matrix(embedding.table);
  CHECK(table.parts.size() == 1 && table.columns() == hidden_.width());
  CHECK(batch.num_rows() <= hidden_.max_rows());
  // One row of each is added to a token's: the row of its type, or of its position.
  const auto added = [&](WeightHandle handle) -> const TiledMatrix* {
    if (!handle) return nullptr;
    const TiledMatrix& found = weights_.matrix(handle).parts[0];
    CHECK(found.columns() == hidden_.width());
    return &found;
  };
  const TiledMatrix* const types = added(embedding.types);
  const TiledMatrix* const positions = added(embedding.positions);
  const RowRange own = share_.columns_of(&Shard::vocab, table.rows());
  // A rank has the rows of its part of the vocabulary.
  float* const board = share_.board();
  for_each_row(batch.num_rows(), [&](uint32_t row) {
    const uint32_t id = batch.token_ids[row] - own.first;
    if (id >= own.count) {
      CHECK(board != nullptr);  // another rank has it
      return;
    }
    const std::span<float> out(board == nullptr ? hidden_.row(row) : board + size_t{row} * hidden_.width(),
                               hidden_.width());
    table.parts[0].copy_row(id, out);
    if (embedding.scale != 1.0f) {
      for (float& value : out) value = value * embedding.scale;
    }
    const auto add_row = [&](const TiledMatrix* from, uint32_t index) {
      if (from == nullptr) return;
      std::vector<float> values(out.size());
      from->copy_row(index, values);
      for (size_t i = 0; i < out.size(); ++i) out[i] = out[i] + values[i];
    };
    add_row(types, batch.types.empty() ? 0 : batch.types[row]);
    add_row(positions, batch.positions[row]);
    if (embedding.norm && board == nullptr)
      layer_norm(out.data(), embedding.norm, hidden_.width(), out.data());
  });
  if (board == nullptr) return;
  share_.group()->meet(static_cast<uint64_t>(std::ranges::count_if(
                           batch.token_ids, [&](uint32_t id) { return id - own.first < own.count; })) *
                       hidden_.width());
  for_each_row(batch.num_rows(), [&](uint32_t row) {
    std::copy_n(board + size_t{row} * hidden_.width(), hidden_.width(), hidden_.row(row));
  });
  if (embedding.norm) norm_hidden(batch.num_rows(), embedding.norm);
}

void CpuBackend::qkv(const Batch& batch, const LayerSpec& layer) {
  CHECK(has_cache_ && batch.num_rows() <= qkv_.max_rows());
  const QkvSpec& qkv = layer.qkv;
  norm_rows(batch.num_rows(), qkv.norm);
  multiply_rows(executor_, weights_.matrix(qkv.weight), normed_, batch.num_rows(),
                weights_.values_of(qkv.bias), /*add=*/false, qkv_.row(0), qkv_.stride());
  const RopeSpec& rope = spec_->ropes.at(qkv.rope);
  RopeAngles& angles = angles_[qkv.rope];
  angles.prepare(batch.positions, rope, *threads_);
  HeadRotation rotation{rope.pairs, angles};
  if (qkv.norms_heads_together) {
    norm_heads_together(batch.num_rows(), layer);
  } else {
    rotation.query_norm = head_norm(qkv.query_norm);
    rotation.key_norm = head_norm(qkv.key_norm);
  }
  rope_and_store(executor_, batch, layer.kv, share_.heads_of(layer.attention), rotation, cache_, qkv_);
}

void CpuBackend::norm_heads_together(uint32_t num_rows, const LayerSpec& layer) {
  const AttentionShape& shape = layer.attention;
  const AttentionShape own = share_.heads_of(shape);
  // Columns of the queries or of the keys of all heads, and those that this rank has of them.
  struct Section {
    const NormSpec& norm;
    uint32_t first;
    uint32_t width;
    RowRange own;        // of width
    uint32_t first_own;  // in qkv_
  };
  const auto columns = [&](RowRange Shard::*heads, uint32_t num_heads) {
    const RowRange range = share_.columns_of(heads, num_heads);
    return RowRange{range.first * shape.head_dim, range.count * shape.head_dim};
  };
  const uint32_t query_width = shape.num_heads * shape.head_dim;
  const uint32_t key_width = shape.num_kv_heads * shape.head_dim;
  const Section sections[] = {
      {layer.qkv.query_norm, 0, query_width, columns(&Shard::heads, shape.num_heads), 0},
      {layer.qkv.key_norm, query_width, key_width, columns(&Shard::kv_heads, shape.num_kv_heads),
       own.num_heads * own.head_dim}};
  if (share_.is_whole()) {
    for_each_row(num_rows, [&](uint32_t row) {
      for (const Section& section : sections) {
        float* values = qkv_.row(row) + section.first_own;
        rms_norm(values, section.norm, section.width, values);
      }
    });
    return;
  }
  // A sum is not divided among ranks, so each has the values of all. attended_ is free until attention.
  float* const board = share_.group()->board();
  const size_t stride = query_width + key_width;
  for_each_row(num_rows, [&](uint32_t row) {
    for (const Section& section : sections)
      std::copy_n(qkv_.row(row) + section.first_own, section.own.count,
                  board + row * stride + section.first + section.own.first);
  });
  share_.group()->meet(uint64_t{num_rows} * (sections[0].own.count + sections[1].own.count));
  for_each_row(num_rows, [&](uint32_t row) {
    for (const Section& section : sections) {
      rms_norm(board + row * stride + section.first, section.norm, section.width, attended_.row(row));
      std::copy_n(attended_.row(row) + section.own.first, section.own.count,
                  qkv_.row(row) + section.first_own);
    }
  });
}

void CpuBackend::attend(const Batch& batch, const LayerSpec& layer) {
  CHECK(has_cache_);
  Activation& own = share_.is_whole() ? attended_ : own_attended_;
  attend_rows(executor_, batch, layer.kv, share_.heads_of(layer.attention), weights_.values_of(layer.sinks),
              cache_, attention_, qkv_, own);
  gather(own, &Shard::heads, layer.attention.head_dim, batch.num_rows(), attended_);
}

void CpuBackend::project(const Batch& batch, const ProjectSpec& project) {
  const RowRange own = share_.columns_of(&Shard::hidden, hidden_.width());
  Activation& out = project.norms_product() ? projected_ : hidden_;
  if (project.experts.num_experts > 0) {
    experts_.add_output(executor_, weights_.matrix(project.weight), weights_.values_of(project.bias),
                        batch.num_rows(), own.first, hidden_);
  } else {
    const Activation& in = project.input == ProjectInput::kAttended ? attended_ : gated_;
    multiply_rows(executor_, weights_.matrix(project.weight), in, batch.num_rows(),
                  weights_.values_of(project.bias),
                  /*add=*/!project.norms_product(), out.row(0) + own.first, out.stride());
  }
  gather(out, &Shard::hidden, 1, batch.num_rows(), out);
  if (project.norms_product()) add_normed_rows(batch.num_rows(), project.norm);
  if (project.norms_sum) norm_hidden(batch.num_rows(), project.norm);
}

void CpuBackend::ffn(const Batch& batch, const FfnSpec& ffn) {
  norm_rows(batch.num_rows(), ffn.norm);
  const StackedMatrix& weight = weights_.matrix(ffn.gate_up);
  if (ffn.experts.num_experts > 0) {
    experts_.gate(executor_, weights_.matrix(ffn.experts.router), weights_.values_of(ffn.experts.router_bias),
                  weight, weights_.values_of(ffn.bias), ffn.nonlinearity, normed_, batch.num_rows());
    return gather(experts_.own_gated(), &Shard::gated, 1, batch.num_rows() * ffn.experts.num_used,
                  experts_.gated());
  }
  CHECK(weight.parts.size() == (ffn.has_gate ? 2 : 1) && !(ffn.has_gate && ffn.bias));
  const GatedMatrices matrices{ffn.has_gate ? &weight.parts.front() : nullptr,
                               weight.parts.back(),
                               {},
                               weights_.values_of(ffn.bias),
                               ffn.nonlinearity};
  Activation& own = share_.is_whole() ? gated_ : own_gated_;
  gated_multiply_rows(executor_, matrices, normed_, batch.num_rows(), own);
  gather(own, &Shard::gated, 1, batch.num_rows(), gated_);
}

LogitRows& CpuBackend::head(const HeadSpec& head, std::span<const HeadRow> rows) {
  const StackedMatrix& output = weights_.matrix(head.weight);
  const auto num_rows = static_cast<uint32_t>(rows.size());
  CHECK(logits_);
  const uint32_t vocab_size = logits_->vocab_size();
  const RowRange own = share_.columns_of(&Shard::vocab, vocab_size);
  CHECK(output.rows() == own.count);
  const std::span<float> logits = logits_->start(rows);
  for_each_row(num_rows, [&](uint32_t i) {
    CHECK(rows[i].row < hidden_.max_rows());
    norm_row(hidden_.row(rows[i].row), head.norm, head_input_, i);
  });
  float* const board = share_.board();
  const bool leads = board == nullptr || share_.group()->leads();
  float* const own_logits = (leads ? logits.data() : board) + own.first;
  multiply_rows(executor_, output, head_input_, num_rows, {}, /*add=*/false, own_logits, vocab_size);
  if (head.softcap != 0.0f) {
    for_each_row(num_rows, [&](uint32_t i) {
      kernels_.soft_cap(own_logits + size_t{i} * vocab_size, own.count, head.softcap);
    });
  }
  if (board != nullptr) share_.group()->meet(leads ? 0 : uint64_t{num_rows} * own.count);
  if (!leads) return *logits_;
  if (board != nullptr) {
    // The leader draws, and is rank 0: the logits of the others come after its own.
    for_each_row(num_rows, [&](uint32_t i) {
      const size_t first = size_t{i} * vocab_size;
      std::copy_n(board + first + own.end(), vocab_size - own.end(), logits.data() + first + own.end());
    });
  }
  logits_->draw();
  return *logits_;
}

std::vector<float> CpuBackend::read_states(const NormSpec& norm, std::span<const uint32_t> rows) {
  CHECK(rows.size() <= head_input_.max_rows());
  for_each_row(static_cast<uint32_t>(rows.size()), [&](uint32_t i) {
    CHECK(rows[i] < hidden_.max_rows());
    norm_row(hidden_.row(rows[i]), norm, head_input_, i);
  });
  std::vector<float> states;
  states.reserve(rows.size() * head_input_.width());
  for (uint32_t i = 0; i < rows.size(); ++i)
    states.insert(states.end(), head_input_.row(i), head_input_.row(i) + head_input_.width());
  return states;
}

std::vector<float> CpuBackend::read_rows(Flow flow, uint32_t num_rows) {
  const std::pair<Flow, const Activation*> flows[] = {{Flow::kHidden, &hidden_},
                                                      {Flow::kNormed, &normed_},
                                                      {Flow::kQkv, &qkv_},
                                                      {Flow::kAttended, &attended_},
                                                      {Flow::kGated, &gated_}};
  const Activation& from =
      *std::ranges::find(flows, flow, &std::pair<Flow, const Activation*>::first)->second;
  CHECK(num_rows <= from.max_rows() && share_.is_whole());
  std::vector<float> rows;
  for (uint32_t row = 0; row < num_rows; ++row)
    rows.insert(rows.end(), from.row(row), from.row(row) + from.width());
  return rows;
}

}  // namespace

Result<std::unique_ptr<Backend>> make_cpu_backend(const BackendOptions& options) {
  Result<std::unique_ptr<ThreadPool>> threads = ThreadPool::create(options.num_threads, options.nodes);
  if (!threads) return threads.error();
  return make_cpu_backend_on(*std::move(threads), options);
}

Result<std::unique_ptr<Backend>> make_cpu_backend_on(std::shared_ptr<ThreadPool> threads,
                                                     const BackendOptions& options, const Kernels* kernels) {
  const Result<const Kernels*> usable =
      kernels == nullptr ? kernels_for(options.isa) : Result<const Kernels*>(kernels);
  if (!usable) return usable.error();
  return std::unique_ptr<Backend>(std::make_unique<CpuBackend>(**usable, std::move(threads), options));
}

}  // namespace runnel
