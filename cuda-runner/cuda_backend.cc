#include "cuda-runner/cuda_backend.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cuda-runner/cuda_compute_device.h"
#include "cuda-runner/device_rank.h"
#include "cuda-runner/exchange.h"
#include "cuda-runner/forward_pass.h"
#include "cuda-runner/step_ahead.h"
#include "runner/check.h"
#include "runner/ranks/cut_rows.h"
#include "runner/ranks/shard_plan.h"
#include "runner/system/processors.h"
#include "runner/system/start_times.h"

namespace runnel {
namespace {

// Each operation is given to all ranks, and then what they have computed is exchanged. Of the memory plan,
// numbers of bytes are those of all devices together, as if each took what the largest part takes.
class CudaBackend final : public Backend, private FlowReader {
 public:
  // nccl: null if gathers are copies.
  CudaBackend(std::vector<std::unique_ptr<DeviceRank>> ranks, std::unique_ptr<const NcclClique> nccl,
              const BackendOptions& options)
      : ranks_(std::move(ranks)),
        compute_device_(devices_of(ranks_), ranks_.front()->stream()),
        kv_type_(options.kv_type),
        start_times_(options.start_times),
        pass_(options.enforce_eager) {
    for_each_rank([&](DeviceRank& rank, uint32_t) { exchange_.add(rank.stream()); });
    exchange_.use(std::move(nccl));
  }

  ComputeDevice& device() override { return compute_device_; }
  std::string numerics_id() const override { return runnel::numerics_id(ActivationType::kI8, kv_type_); }

  Result<uint64_t> matrix_bytes(std::span<const TensorView> stacked) const override {
    return DeviceWeights::matrix_bytes(stacked);
  }
  uint64_t kv_block_bytes(const KvShape& shape) const override {
    return times_largest([&](const DeviceRank& rank) { return rank.kv_block_bytes(shape); });
  }
  Result<StepMemory> step_memory(const DecoderSpec& spec, const StepLimits& limits,
                                 const KvShape& shape) const override;

  Result<void> share(const DecoderSpec& spec) override;
  Result<void> expect_weights(uint64_t bytes, const std::string& identity) override;
  Result<WeightHandle> load_matrix(std::span<const TensorView> stacked) override;
  Result<WeightHandle> load_vector(const std::string& name, std::span<const float> values) override;
  Result<void> prepare(const DecoderSpec& spec, const StepLimits& limits) override;
  Result<void> allocate_kv(const KvShape& shape) override;
  uint64_t weights_bytes() const override {
    return times_largest([](const DeviceRank& rank) { return rank.weights().num_bytes(); });
  }
  uint32_t num_graphs(uint32_t max_sequences) const override {
    return pass_.num_graphs(std::min(max_sequences, max_rows_));
  }

  void begin_forward(const Batch& batch) override;
  void end_forward() override;
  void embed(const Batch& batch, const EmbeddingSpec& embedding) override;
  void qkv(const Batch& batch, const LayerSpec& layer) override;
  void attend(const Batch& batch, const LayerSpec& layer) override;
  void project(const Batch& batch, const ProjectSpec& project) override;
  void ffn(const Batch& batch, const FfnSpec& ffn) override;
  LogitRows& head(const HeadSpec& head, std::span<const HeadRow> rows) override;
  std::vector<float> read_states(const NormSpec& norm, std::span<const uint32_t> rows) override;
  uint64_t num_rows_ahead() const override { return ahead_.num_rows(); }
  FlowReader& flows() override { return *this; }

 private:
  std::vector<float> read_rows(Flow flow, uint32_t num_rows) override {
    CHECK(pass_.is_eager() && is_alone());
    return ranks_.front()->read_rows(flow, num_rows);
  }
  std::vector<float> read_kv(const LayerSpec& layer, const BatchSequence& sequence,
                             uint32_t num_positions) override {
    CHECK(pass_.is_eager() && is_alone());
    return ranks_.front()->read_kv(layer, sequence, num_positions);
  }

  using Ranks = std::vector<std::unique_ptr<DeviceRank>>;

  static std::vector<const Device*> devices_of(const Ranks& ranks) {
    std::vector<const Device*> devices;
    for (const auto& rank : ranks) devices.push_back(&rank->device());
    return devices;
  }
  bool is_alone() const { return ranks_.size() == 1; }
  // Calls fn(rank, number) with the device of each rank current. A backend that has one device makes it
  // current too: another backend of the process may have left another one.
  template <typename Fn>
  void for_each_rank(const Fn& fn) {
    for (uint32_t number = 0; number < ranks_.size(); ++number) {
      ranks_[number]->device().make_current();
      fn(*ranks_[number], number);
    }
  }
  // The same for what can fail, until one does.
  template <typename Fn>
  Result<void> try_each_rank(const Fn& fn) {
    Result<void> result;
    for_each_rank([&](DeviceRank& rank, uint32_t number) {
      if (result.ok()) result = fn(rank, number);
    });
    return result;
  }
  // Adds a weight to those of each rank: add(weights, rows of it that the rank has; none: all).
  template <typename Add>
  Result<WeightHandle> add_to_each(const Add& add);
  template <typename Fn>
  uint64_t times_largest(const Fn& bytes_of) const {
    uint64_t largest = 0;
    for (const auto& rank : ranks_) largest = std::max<uint64_t>(largest, bytes_of(std::as_const(*rank)));
    return largest * ranks_.size();
  }
  // Floats of a piece of memory that holds a share of any gather by NCCL; 0 without NCCL.
  size_t piece_floats(const DecoderSpec& spec, const DecoderWidths& widths, uint32_t max_rows) const;
  // Gives all ranks the columns that each has of a dimension, in columns of `width`. own: these alone, or the
  // same as all.
  void gather(RowRange Shard::*dimension, uint32_t width, uint32_t count, DeviceColumns (DeviceRank::*own)(),
              DeviceColumns (DeviceRank::*all)());
  void norm_heads_together(const LayerSpec& layer, uint32_t count);
  // Launches what gives the chosen rows their logits and draws.
  void launch_head(const HeadSpec& head, void (DeviceRank::*draw)(const HeadSpec& head));
  // Launches the step after the one that these rows are of, if it can be computed ahead.
  void launch_ahead(const HeadSpec& head, std::span<const HeadRow> rows);
  void end_part(const char* part, const std::string& remark = "") {
    if (start_times_ != nullptr) start_times_->end(part, remark);
  }

  Ranks ranks_;
  Exchange exchange_;
  CudaComputeDevice compute_device_;
  const KvType kv_type_;
  const std::shared_ptr<StartTimes> start_times_;  // null: nobody asks
  ShardPlan plan_;                                 // set by share
  int32_t num_weights_ = 0;
  uint32_t max_rows_ = 0;
  uint32_t max_head_rows_ = 0;
  ForwardPass pass_;
  StepAhead ahead_;
  std::chrono::steady_clock::time_point pass_began_at_;
};

// --- computed before anything is allocated

// Attention that sees ahead, norms of sums and GELU by the error function have no kernels; encoders alone
// have them.
Result<DecoderWidths> supported_widths_of(const DecoderSpec& spec) {
  const LayerSpec& layer = spec.layers.front();
  if (layer.ffn.nonlinearity == Nonlinearity::kClampedSwish && layer.ffn.experts.num_experts == 0)
    return Error{ExitCode::kBadModel, "a clamped gate without experts is computed on the CPU only."};
  if (!layer.attention.sees_ahead) return widths_of(spec);
  return Error{ExitCode::kBadModel,
               "encoders are computed on the CPU only; start cpu-runner, or the gateway with --backend cpu."};
}

Result<StepMemory> CudaBackend::step_memory(const DecoderSpec& spec, const StepLimits& limits,
                                            const KvShape& shape) const {
  const Result<DecoderWidths> widths = supported_widths_of(spec);
  if (!widths) return widths.error();
  const auto part = [&](uint64_t StepMemory::*bytes) {
    return times_largest(
        [&](const DeviceRank& rank) { return rank.step_memory(spec, *widths, limits, shape).*bytes; });
  };
  const uint64_t pieces = exchange_.pieces_bytes(piece_floats(spec, *widths, limits.max_rows));
  return StepMemory{part(&StepMemory::rows) + ranks_.size() * pieces, part(&StepMemory::attention),
                    part(&StepMemory::logits)};
}

size_t CudaBackend::piece_floats(const DecoderSpec& spec, const DecoderWidths& widths,
                                 uint32_t max_rows) const {
  if (!exchange_.uses_nccl()) return 0;
  const auto widest = [&](RowRange Shard::*dimension, uint32_t width) {
    return size_t{std::ranges::max(plan_.columns_of(dimension, width), {}, &RowRange::count).count};
  };
  // Keys have no more heads than queries.
  return max_rows *
         std::max({widest(&Shard::heads, spec.layers.front().attention.head_dim), widest(&Shard::hidden, 1),
                   widest(&Shard::gated, 1) * std::max(widths.experts.num_used, 1u)});
}

// --- while loading

Result<void> CudaBackend::share(const DecoderSpec& spec) {
  if (is_alone()) return {};
  Result<ShardPlan> plan = ShardPlan::make(spec, static_cast<uint32_t>(ranks_.size()));
  if (!plan) return plan.error();
  plan_ = *std::move(plan);
  for (uint32_t number = 0; number < ranks_.size(); ++number) ranks_[number]->share(plan_, number);
  return {};
}

Result<void> CudaBackend::expect_weights(uint64_t bytes, const std::string&) {
  const uint64_t free_bytes = compute_device_.free_memory_bytes();
  if (bytes <= free_bytes) return {};
  return Error{ExitCode::kSystem,
               "its weights need " + std::to_string(bytes) + " bytes of GPU memory; " +
                   std::to_string(free_bytes) + " of " +
                   std::to_string(compute_device_.total_memory_bytes()) +
                   " bytes are free. Use a smaller model, or stop other programs that use the GPU.",
               MemoryShortage{bytes, free_bytes}};
}

template <typename Add>
Result<WeightHandle> CudaBackend::add_to_each(const Add& add) {
  const WeightHandle handle{num_weights_++};
  const auto added = try_each_rank([&](DeviceRank& rank, uint32_t) -> Result<void> {
    const Result<WeightHandle> own = add(rank.weights(), rank.own_rows(handle));
    if (!own) return own.error();
    CHECK(own->index == handle.index);
    return {};
  });
  if (!added) return added.error();
  return handle;
}

Result<WeightHandle> CudaBackend::load_matrix(std::span<const TensorView> stacked) {
  if (const Result<uint64_t> bytes = matrix_bytes(stacked); !bytes) return bytes.error();
  return add_to_each([&](DeviceWeights& weights, const std::vector<RowRange>& rows) {
    return weights.add_matrix(cut_rows(stacked, rows).parts);
  });
}

Result<WeightHandle> CudaBackend::load_vector(const std::string& name, std::span<const float> values) {
  return add_to_each([&](DeviceWeights& weights, const std::vector<RowRange>& rows) {
    return weights.add_vector(name, cut_values(values, rows));
  });
}

Result<void> CudaBackend::prepare(const DecoderSpec& spec, const StepLimits& limits) {
  const Result<DecoderWidths> widths = supported_widths_of(spec);
  if (!widths) return widths.error();
  max_rows_ = limits.max_rows;
  max_head_rows_ = limits.max_head_rows;
  std::string waited;
  for_each_rank([&](DeviceRank& rank, uint32_t) { waited = rank.weights().finish_upload(); });
  end_part("weights", waited);
  for_each_rank([&](DeviceRank& rank, uint32_t) { rank.load_kernels(spec); });
  end_part("kernels");
  const size_t piece = piece_floats(spec, *widths, max_rows_);
  const auto prepared = try_each_rank([&](DeviceRank& rank, uint32_t number) {
    const Result<void> allocated = exchange_.allocate_pieces(number, piece);
    return allocated.ok() ? rank.prepare(spec, *widths, limits) : allocated;
  });
  if (prepared.ok()) end_part("memory of a step");
  return prepared;
}

Result<void> CudaBackend::allocate_kv(const KvShape& shape) {
  for_each_rank([](DeviceRank& rank, uint32_t) { rank.stream().synchronize(); });
  pass_.forget_graphs();
  ahead_.start(shape.block_size, max_head_rows_);
  return try_each_rank([&](DeviceRank& rank, uint32_t) { return rank.allocate_kv(shape); });
}

// --- one step

void CudaBackend::begin_forward(const Batch& batch) {
  pass_began_at_ = std::chrono::steady_clock::now();
  ahead_.begin(batch);
  pass_.plan(ahead_.rest(), max_rows_);
  if (pass_.num_rows() > 0) {
    // What the last pass has given may still be read, and what it was sent.
    exchange_.meet();
    for_each_rank([&](DeviceRank& rank, uint32_t) { rank.begin(ahead_.rest(), pass_.num_rows()); });
  }
  pass_.begin(ranks_.front()->stream(), exchange_);
}

void CudaBackend::end_forward() {
  const bool is_captured = !pass_.is_eager() && !pass_.is_launched_whole();
  pass_.end(ranks_.front()->stream(), exchange_);
  if (!is_captured || start_times_ == nullptr) return;
  const auto took = std::chrono::steady_clock::now() - pass_began_at_;
  std::fprintf(stderr, "A graph of %u rows was captured in %s ms.\n", pass_.num_rows(),
               milliseconds_text(took).c_str());
}

void CudaBackend::gather(RowRange Shard::*dimension, uint32_t width, uint32_t count,
                         DeviceColumns (DeviceRank::*own)(), DeviceColumns (DeviceRank::*all)()) {
  if (is_alone()) return;
  const std::vector<RowRange> shares = plan_.columns_of(dimension, width);
  const auto own_columns = [&](uint32_t number) {
    const DeviceColumns columns = (*ranks_[number].*own)();
    return own == all ? columns.from(shares[number].first) : columns;
  };
  exchange_.gather(shares, count, own_columns, [&](uint32_t number) { return (*ranks_[number].*all)(); });
}

void CudaBackend::embed(const Batch&, const EmbeddingSpec& embedding) {
  if (pass_.is_launched_whole()) return;
  const uint32_t count = pass_.num_rows_left();
  for_each_rank([&](DeviceRank& rank, uint32_t) { rank.embed(embedding, count); });
  if (is_alone()) return;
  // Which rank has the row of a token is known to kernels only, since a graph serves any tokens. So each rank
  // copies all rows of each of the others, and takes those that the other has computed. What it takes is not
  // written meanwhile: the other takes different rows.
  exchange_.meet();
  const std::vector<RowRange> tokens = plan_.columns_of(&Shard::vocab);
  for_each_rank([&](DeviceRank& rank, uint32_t number) {
    for (uint32_t other = 0; other < ranks_.size(); ++other) {
      if (other == number) continue;
      exchange_.copy(number, rank.staging(), ranks_[other]->hidden(), rank.hidden_width(), count);
      rank.take_embedded(tokens[other], count);
    }
  });
}

void CudaBackend::qkv(const Batch&, const LayerSpec& layer) {
  if (pass_.is_launched_whole()) return;
  const uint32_t count = pass_.num_rows_left();
  for_each_rank([&](DeviceRank& rank, uint32_t) { rank.multiply_qkv(layer, count, !pass_.is_eager()); });
  if (layer.qkv.norms_heads_together) norm_heads_together(layer, count);
  for_each_rank([&](DeviceRank& rank, uint32_t) { rank.rotate_and_store(layer, count, !pass_.is_eager()); });
}

void CudaBackend::norm_heads_together(const LayerSpec& layer, uint32_t count) {
  const AttentionShape& shape = layer.attention;
  struct Section {
    std::vector<RowRange> shares;
    uint32_t first;  // column of heads()
    // The first column of qkv() on a rank.
    std::function<uint32_t(uint32_t number)> first_own;
  };
  std::vector<Section> sections;
  if (!is_alone()) {
    const auto no_columns = [](uint32_t) { return 0u; };
    const auto own_queries = [&](uint32_t number) { return plan_[number].heads.count * shape.head_dim; };
    sections = {
        {plan_.columns_of(&Shard::heads, shape.head_dim), 0, no_columns},
        {plan_.columns_of(&Shard::kv_heads, shape.head_dim), shape.num_heads * shape.head_dim, own_queries}};
  }
  for (const Section& section : sections) {
    exchange_.gather(
        section.shares, count,
        [&](uint32_t number) { return ranks_[number]->qkv().from(section.first_own(number)); },
        [&](uint32_t number) { return ranks_[number]->heads().from(section.first); });
  }
  for_each_rank([&](DeviceRank& rank, uint32_t) { rank.norm_heads_together(layer, count); });
  // What was given is written again.
  exchange_.meet();
  for (const Section& section : sections) {
    for (uint32_t number = 0; number < ranks_.size(); ++number) {
      const RowRange& share = section.shares[number];
      exchange_.copy(number, ranks_[number]->qkv().from(section.first_own(number)),
                     ranks_[number]->heads().from(section.first + share.first), share.count, count);
    }
  }
}

void CudaBackend::attend(const Batch&, const LayerSpec& layer) {
  if (pass_.is_launched_whole()) return;
  const uint32_t count = pass_.num_rows_left();
  for_each_rank([&](DeviceRank& rank, uint32_t) { rank.attend(layer, count, !pass_.is_eager()); });
  gather(&Shard::heads, layer.attention.head_dim, count, &DeviceRank::own_attended, &DeviceRank::attended);
  for_each_rank([&](DeviceRank& rank, uint32_t) { rank.end_attend(count); });
}

void CudaBackend::project(const Batch&, const ProjectSpec& project) {
  if (pass_.is_launched_whole()) return;
  const uint32_t count = pass_.num_rows_left();
  for_each_rank([&](DeviceRank& rank, uint32_t) { rank.project(project, count); });
  const auto output = project.norm ? &DeviceRank::projected : &DeviceRank::hidden;
  gather(&Shard::hidden, 1, count, output, output);
  for_each_rank([&](DeviceRank& rank, uint32_t) { rank.end_project(project, count); });
}

void CudaBackend::ffn(const Batch&, const FfnSpec& ffn) {
  if (pass_.is_launched_whole()) return;
  const uint32_t count = pass_.num_rows_left();
  const uint32_t num_uses = count * std::max(ffn.experts.num_used, 1u);
  for_each_rank([&](DeviceRank& rank, uint32_t) { rank.ffn(ffn, count, !pass_.is_eager()); });
  gather(&Shard::gated, 1, num_uses, &DeviceRank::own_gated, &DeviceRank::gated);
  for_each_rank([&](DeviceRank& rank, uint32_t) { rank.end_ffn(num_uses); });
}

LogitRows& CudaBackend::head(const HeadSpec& head, std::span<const HeadRow> rows) {
  CHECK(!ahead_.is_under_way());
  std::vector<HeadRow> left;
  std::vector<std::optional<uint32_t>> computed;
  for (const HeadRow& row : rows) {
    computed.push_back(ahead_.computed(row.row));
    left.emplace_back(row).row = ahead_.rest_row(row.row);
  }
  DeviceRank& first = *ranks_.front();
  // The first rank may still compute a graph for all, or read the last logits.
  exchange_.meet();
  for_each_rank([&](DeviceRank& rank, uint32_t) { rank.choose(left, computed); });
  if (first.num_chosen() > 0) launch_head(head, &DeviceRank::draw);
  launch_ahead(head, rows);
  first.device().make_current();
  return first.results();
}

void CudaBackend::launch_head(const HeadSpec& head, void (DeviceRank::*draw)(const HeadSpec& head)) {
  for_each_rank([&](DeviceRank& rank, uint32_t) { rank.head(head); });
  DeviceRank& first = *ranks_.front();
  if (!is_alone()) {
    exchange_.meet();
    const std::vector<RowRange> shares = plan_.columns_of(&Shard::vocab);
    for (uint32_t other = 1; other < ranks_.size(); ++other)
      exchange_.copy(0, first.logits().from(shares[other].first), ranks_[other]->logits(),
                     shares[other].count, first.num_chosen());
  }
  first.device().make_current();
  (first.*draw)(head);
}

void CudaBackend::launch_ahead(const HeadSpec& head, std::span<const HeadRow> rows) {
  const std::optional<StepAhead::Next> next = ahead_.next(rows);
  if (!next) return;
  const std::optional<uint32_t> graph_rows = pass_.graph_rows(next->batch.num_rows());
  if (!graph_rows) return;
  // The others wait for the draws of the first rank.
  exchange_.meet();
  for_each_rank([&](DeviceRank& rank, uint32_t) {
    rank.begin_ahead(next->batch, *graph_rows, next->rows, *ranks_.front());
  });
  exchange_.first_follows();
  pass_.replay(*graph_rows, ranks_.front()->stream());
  exchange_.meet();
  launch_head(head, &DeviceRank::draw_ahead);
  ahead_.launched(next->batch);
}

std::vector<float> CudaBackend::read_states(const NormSpec& norm, std::span<const uint32_t> rows) {
  CHECK(!ahead_.is_under_way());
  std::vector<uint32_t> left;
  for (const uint32_t row : rows) {
    CHECK(!ahead_.computed(row));
    left.push_back(ahead_.rest_row(row));
  }
  ranks_.front()->device().make_current();
  return ranks_.front()->read_states(norm, left);
}

}  // namespace

Result<std::unique_ptr<Backend>> make_cuda_backend(const BackendOptions& options) {
  if (options.gathers_by_nccl && options.num_gpus == 1) {
    return Error{ExitCode::kUsage,
                 "--all-gather-backend nccl has no effect with one GPU: leave it out, or raise "
                 "--tensor-parallel-size."};
  }
  const uint32_t num_threads = options.num_threads == 0 ? usable_cores() : options.num_threads;
  std::vector<std::unique_ptr<DeviceRank>> ranks;
  for (uint32_t number = 0; number < options.num_gpus; ++number) {
    Result<std::unique_ptr<DeviceRank>> rank =
        DeviceRank::open(static_cast<int>(options.gpu_device + number), options.kv_type,
                         std::min(num_threads, kMaxPackingThreads), options.start_times.get());
    if (rank) {
      ranks.push_back(*std::move(rank));
    } else if (!options.may_use_fewer_gpus || (ranks.empty() && number + 1 == options.num_gpus)) {
      return rank.error();
    } else {
      std::fprintf(stderr, "A GPU is left out: %s\n", rank.error().message.c_str());
    }
  }
  size_t num_ranks = options.num_gpus;
  while (num_ranks > ranks.size()) num_ranks /= 2;
  // A half of 6 is 3, which cannot share 2 KV heads.
  while (options.may_use_fewer_gpus && options.can_share && num_ranks > 1 &&
         !options.can_share(static_cast<uint32_t>(num_ranks)))
    num_ranks /= 2;
  ranks.resize(num_ranks);
  for (const auto& rank : ranks) {
    for (const auto& other : ranks) {
      if (rank == other || rank->device().reach(other->device())) continue;
      std::fprintf(stderr,
                   "GPU %d cannot reach the memory of GPU %d: copies between them go through the host.\n",
                   rank->device().number(), other->device().number());
    }
  }
  if (options.start_times != nullptr) options.start_times->end("pinned memory");
  std::unique_ptr<const NcclClique> nccl;
  if (options.gathers_by_nccl && ranks.size() > 1) {
    std::vector<int> numbers;
    for (const auto& rank : ranks) numbers.push_back(rank->device().number());
    Result<std::unique_ptr<NcclClique>> clique = NcclClique::create(numbers);
    if (!clique) return clique.error();
    nccl = *std::move(clique);
    if (options.start_times != nullptr) options.start_times->end("NCCL", nccl->version_name());
  }
  return std::unique_ptr<Backend>(std::make_unique<CudaBackend>(std::move(ranks), std::move(nccl), options));
}

}  // namespace runnel
