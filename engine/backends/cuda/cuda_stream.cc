#include "engine/backends/cuda/cuda_stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/backends/cuda/batch_views.h"
#include "engine/backends/cuda/kernels/pixels.h"
#include "engine/backends/cuda/kernels/pooling.h"
#include "engine/backends/cuda/profile.h"
#include "engine/backends/layer_profile.h"
#include "engine/backends/overflow.h"
#include "engine/base/int_math.h"
#include "engine/base/status_macros.h"
#include "engine/graph/tile_geometry.h"
#include "engine/image/copy_rgb.h"

namespace upscaled::cuda {
namespace {

constexpr double kSumUnit = 1 << 24;  // as kernels scale sums

BatchShape ShapeOf(const TileTask& task) {
  BatchShape shape{.src_type = task.src.spec.type,
                   .src_channels = task.src.spec.channels,
                   .known_means = task.pooling->number(),
                   .gathers = task.pooling->gathers()};
  if (!shape.gathers) shape.dst_type = task.dst.spec.type;
  return shape;
}

// Runs of pixels of `result`, an RGB image of floats with its corner at `origin`, outside the range
// of halves.
std::vector<Rect> OverflowedOf(const ImageView& result, const Rect& origin) {
  std::vector<Rect> runs;
  runs.reserve(MaxOverflowedRuns(result.spec.size()));
  for (int y = 0; y < result.height_px(); ++y) {
    AppendOverflowed(result.row_as<float>(y), kRgbChannels, result.width_px(), origin.x,
                     origin.y + y, runs);
  }
  return runs;
}

}  // namespace

absl::Status CudaStream::Run(const Executable& executable, std::span<const TileTask> tiles) {
  RETURN_IF_ERROR(Prepare());
  const auto& own = static_cast<const CudaExecutable&>(executable);
  std::vector<Batch> batches;
  for (const TileTask& task : tiles) {
    RETURN_IF_ERROR(CheckTileTask(executable, task));
    ASSIGN_OR_RETURN(Batch single, MakeBatch(own, own.precision(), task));
    RETURN_IF_ERROR(UseCache(single));
    if (!Join(single, batches)) batches.push_back(std::move(single));
  }
  for (const Batch& batch : batches) {
    RETURN_IF_ERROR(RunBatch(batch));
    if (batch.precision == Precision::kExact || batch.shape.gathers || !context_->repairs())
      continue;
    std::vector<const TileTask*> overflowed;
    for (size_t t = 0; t < batch.tasks.size(); ++t) {
      if (IsOverflowed(batch, t)) overflowed.push_back(batch.tasks[t]);
    }
    for (const TileTask* task : overflowed) RETURN_IF_ERROR(RunExactly(own, *task));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<LayerProfile>> CudaStream::Profile(const Executable& executable,
                                                              const TileTask& task) {
  RETURN_IF_ERROR(Run(executable, {&task, 1}));
  const auto& own = static_cast<const CudaExecutable&>(executable);
  ASSIGN_OR_RETURN(const TileProfile profile,
                   ProfileTile(own, {task.plan->image, task.plan->tile}, /*repetitions=*/1));
  const Network& network = own.network();
  std::vector<LayerProfile> layers;
  for (size_t i = 0; i < network.layers.size(); ++i) {
    layers.push_back(DescribeLayer(network, i, task.plan->regions, StorageBytes(own.precision())));
  }
  for (const StepTime& step : profile.steps) {
    LayerProfile& layer = layers[step.layer];
    absl::StrAppend(&layer.kernel, layer.kernel.empty() ? "" : "+", step.kernel);
    layer.seconds += step.seconds;
  }
  for (LayerProfile& layer : layers) {
    if (layer.kernel.empty()) layer.kernel = "fused";
  }
  return layers;
}

absl::StatusOr<CudaStream::Batch> CudaStream::MakeBatch(const CudaExecutable& executable,
                                                        Precision precision, const TileTask& task) {
  const Program& program = executable.program();
  Batch batch{.executable = executable,
              .precision = precision,
              .plan = PlaceTile(program, *task.plan),
              .shape = ShapeOf(task),
              .layout = {},
              .tasks = {&task}};
  RETURN_IF_ERROR(executable.CheckPlan(batch.plan));
  batch.layout = LayOut(program, batch.plan, precision, batch.shape);
  return batch;
}

bool CudaStream::Batch::SendsImage() const {
  const std::vector<Node>& nodes = executable.program().nodes;
  return std::any_of(nodes.begin(), nodes.end(), [this](const Node& node) {
    return node.layer() >= first_layer && (node.main == 0 || node.reads_image);
  });
}

absl::Status CudaStream::RunTile(const CudaExecutable& executable, Precision precision,
                                 const TileTask& task) {
  ASSIGN_OR_RETURN(const Batch batch, MakeBatch(executable, precision, task));
  return RunBatch(batch);
}

absl::Status CudaStream::RunExactly(const CudaExecutable& executable, const TileTask& task) {
  const int scale = executable.network().scale;
  Image halves({task.dst.spec.width_px, task.dst.spec.height_px, kRgbChannels, SampleType::kF32});
  TileTask probe = task;
  probe.dst = halves.mutable_view();
  RETURN_IF_ERROR(RunTile(executable, Precision::kFast, probe));
  const auto plan = [&](const Rect& tile) { return executable.Plan(tile, task.plan->image); };
  const auto compute = [&](TilePlan planned, const MutableImageView& dst) {
    TileTask part = task;
    part.plan = std::make_shared<const TilePlan>(std::move(planned));
    part.dst = dst;
    return RunTile(executable, Precision::kExact, part);
  };
  // In quarters: one takes less memory in fp32 than the whole in fp16.
  const Rect& tile = task.plan->tile;
  const Size step{CeilDiv(tile.width, 2), CeilDiv(tile.height, 2)};
  for (int y = tile.y; y < tile.bottom(); y += step.height) {
    for (int x = tile.x; x < tile.right(); x += step.width) {
      const Rect part = Intersect({x, y, step.width, step.height}, tile);
      const Rect result = Scale(part, scale);
      const Rect in_dst = Scale({x - tile.x, y - tile.y, part.width, part.height}, scale);
      const std::vector<Rect> runs = OverflowedOf(halves.view().Crop(in_dst), result);
      RETURN_IF_ERROR(ReplaceOverflowed(runs, scale, part, task.dst.Crop(in_dst), {plan, compute}));
    }
  }
  return absl::OkStatus();
}

CudaStream::GraphKey CudaStream::KeyOf(const Batch& batch) {
  GraphKey key{batch.executable.id(), batch.precision, batch.plan.place, {}, batch.shape};
  if (batch.shape.gathers) key.summed = batch.plan.partial_sum_rects[batch.shape.known_means];
  return key;
}

bool CudaStream::Join(const Batch& single, std::vector<Batch>& batches) {
  if (single.cache != nullptr) return false;
  for (Batch& batch : batches) {
    if (batch.cache != nullptr) continue;
    GraphKey key = KeyOf(batch);
    key.shape.tiles = 1;
    if (batch.tasks.size() == kMaxBatch || key != KeyOf(single)) continue;
    BatchShape shape = batch.shape;
    ++shape.tiles;
    BatchLayout layout = LayOut(batch.executable.program(), batch.plan, batch.precision, shape);
    if (layout.bytes > batch.executable.batch_bytes()) continue;
    batch.shape = shape;
    batch.layout = std::move(layout);
    batch.tasks.push_back(single.tasks.front());
    return true;
  }
  return false;
}

absl::Status CudaStream::Prepare() {
  RETURN_IF_ERROR(context_->Enter());
  if (queue_ != nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(done_, CreateEvent(context_));
  ASSIGN_OR_RETURN(queue_, CreateStream(context_));
  return absl::OkStatus();
}

absl::Status CudaStream::UseCache(Batch& single) const {
  const PoolingPass& pass = *single.tasks.front()->pooling;
  const size_t bytes = single.layout.tensor_bytes();
  if (pass.cache == nullptr || !pass.cache->Begin(&single.executable, pass.number(), bytes)) {
    return absl::OkStatus();
  }
  auto* const cache = static_cast<CachedTile*>(pass.cache);
  if (cache->memory.bytes() == 0) {
    absl::StatusOr<DeviceMemory> memory = AllocateDevice(context_, bytes, "an activation cache");
    if (!memory.ok()) {
      cache->Drop();
      return absl::IsResourceExhausted(memory.status()) ? absl::OkStatus()  // goes without
                                                        : memory.status();
    }
    cache->memory = *std::move(memory);
  }
  single.cache = cache;
  single.first_layer = pass.FirstCachedLayer(single.executable.program().poolings);
  return absl::OkStatus();
}

absl::Status CudaStream::RunBatch(const Batch& batch) {
  RETURN_IF_ERROR(Reserve(batch));
  Pack(batch);
  RETURN_IF_ERROR(Compute(batch));
  // Later layers may hide the NaN, and sums count it as a number.
  if (HasGivenUp(batch) && context_->repairs()) RETURN_IF_ERROR(Compute(batch));
  if (HasGivenUp(batch)) {
    return absl::InternalError(absl::StrCat(context_->device().name, ": a kernel of '",
                                            batch.executable.network().name,
                                            "' waited in vain and gave up"));
  }
  for (size_t t = 0; t < batch.tasks.size(); ++t) {
    if (batch.shape.gathers) {
      DeliverSums(batch, t);
    } else {
      DeliverPixels(batch, t);
    }
  }
  if (batch.cache != nullptr) batch.cache->End(batch.shape.known_means);
  return absl::OkStatus();
}

absl::Status CudaStream::Compute(const Batch& batch) {
  RETURN_IF_ERROR(Launch(batch));
  RETURN_IF_ERROR(context_->Check(cudaEventRecord(done_.get(), queue_.get()), "cudaEventRecord"));
  int64_t cost = 0;
  for (const TileTask* task : batch.tasks) cost += CostOf(*task);
  return context_->Await(done_.get(), cost, "a batch of tiles");
}

absl::Status CudaStream::Reserve(const Batch& batch) {
  const BatchLayout& layout = batch.layout;
  const size_t own_bytes = batch.cache ? layout.tensors : layout.bytes;
  if (own_bytes <= memory_.bytes() && layout.sent_bytes <= sent_.bytes() &&
      layout.received_bytes <= received_.bytes()) {
    return absl::OkStatus();
  }
  graphs_.Clear();  // they hold the old addresses
  const auto grow = [&](auto& memory, size_t bytes, auto allocate, const char* what) {
    if (bytes <= memory.bytes()) return absl::OkStatus();
    memory = {};  // frees the old one first: never both at once
    ASSIGN_OR_RETURN(memory, allocate(context_, bytes, what));
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(grow(memory_, own_bytes, AllocateDevice, "a tile"));
  RETURN_IF_ERROR(grow(sent_, layout.sent_bytes, AllocatePinned, "a tile's source"));
  return grow(received_, layout.received_bytes, AllocatePinned, "a tile's result");
}

void CudaStream::Pack(const Batch& batch) const {
  const BatchLayout& layout = batch.layout;
  for (size_t t = 0; t < batch.tasks.size(); ++t) {
    const TileTask& task = *batch.tasks[t];
    const std::span<const ChannelMeans> means = task.pooling->means;
    for (size_t i = 0; i < layout.means.size(); ++i) {
      const size_t channels = size_t{1} * PlaneCount(means[i].size()) * kPlaneChannels;
      float* const dst = reinterpret_cast<float*>(sent_.data() + layout.means[i]) + t * channels;
      std::fill_n(std::copy(means[i].begin(), means[i].end(), dst), channels - means[i].size(),
                  0.0f);
    }
    if (!batch.SendsImage()) continue;
    // As batch.plan.source; plan->input may cover the needs of other devices.
    const Rect source =
        SourceRect(batch.executable.network(), task.plan->regions[0], task.plan->image);
    const ImageView src = task.src.Crop(
        {source.x - task.src_rect.x, source.y - task.src_rect.y, source.width, source.height});
    const size_t row_bytes = src.spec.row_bytes();
    uint8_t* dst = sent_.data() + layout.source + t * row_bytes * src.spec.height_px;
    for (int y = 0; y < src.spec.height_px; ++y, dst += row_bytes) {
      std::memcpy(dst, src.row(y), row_bytes);
    }
  }
}

absl::Status CudaStream::Launch(const Batch& batch) {
  if (batch.cache != nullptr) return Enqueue(batch);  // a graph would be of its addresses alone
  // Overflowed pixels come in rectangles of any size: graphs of theirs would displace all others.
  if (batch.precision != batch.executable.precision()) return Enqueue(batch);
  Graph& graph = graphs_.Get(KeyOf(batch));
  if (!std::exchange(graph.seen, true)) return Enqueue(batch);
  const absl::Status launched = LaunchGraph(batch, graph.handle);
  // The commands alone need no memory.
  return absl::IsResourceExhausted(launched) ? Enqueue(batch) : launched;
}

absl::Status CudaStream::LaunchGraph(const Batch& batch, GraphExecHandle& graph) {
  if (graph == nullptr) {
    ASSIGN_OR_RETURN(graph, Capture(context_, queue_.get(), [&] { return Enqueue(batch); }));
  }
  return context_->Check(cudaGraphLaunch(graph.get(), queue_.get()), "cudaGraphLaunch");
}

absl::Status CudaStream::Enqueue(const Batch& batch) {
  const BatchLayout& layout = batch.layout;
  const Program& program = batch.executable.program();
  const BatchViews views =
      ViewsOf(program, batch.plan, batch.precision, batch.shape, layout, memory_.data(),
              batch.cache ? batch.cache->memory.data() : memory_.data() + layout.tensors);
  const cudaStream_t queue = queue_.get();
  RETURN_IF_ERROR(context_->Check(cudaMemcpyAsync(memory_.data(), sent_.data(), batch.sent_bytes(),
                                                  cudaMemcpyHostToDevice, queue),
                                  "cudaMemcpyAsync to the device"));
  RETURN_IF_ERROR(context_->Check(
      cudaMemsetAsync(memory_.data() + layout.zeroed, 0, layout.zeroed_bytes(), queue),
      "cudaMemsetAsync"));
  const int end = batch.shape.gathers ? program.poolings[batch.shape.known_means]
                                      : static_cast<int>(program.network.layers.size());
  bool summed = false;
  for (const StepKernel& kernel : batch.executable.kernels(batch.precision)) {
    if (kernel.node().layer() < batch.first_layer) continue;
    if (kernel.node().layer() >= end) break;
    RETURN_IF_ERROR(kernel.Enqueue(*context_, views, queue));
    summed |= kernel.AddsSums(views);
  }
  if (batch.shape.gathers) {
    if (!summed) RETURN_IF_ERROR(EnqueueSums(batch, views));
  } else if (!program.writes_samples) {
    RETURN_IF_ERROR(context_->Check(
        LaunchStorePixels(views.tensors.back(), views.samples, views.tiles, batch.precision, queue),
        "launch of store_pixels"));
  }
  return context_->Check(cudaMemcpyAsync(received_.data(), memory_.data() + layout.result,
                                         layout.received_bytes, cudaMemcpyDeviceToHost, queue),
                         "cudaMemcpyAsync from the device");
}

absl::Status CudaStream::EnqueueSums(const Batch& batch, const BatchViews& views) {
  const Program& program = batch.executable.program();
  const int pooling = program.poolings[batch.shape.known_means];
  const TensorView& pooled = views.tensors[program.network.layers[pooling].inputs[0]];
  auto* sums = reinterpret_cast<int64_t*>(memory_.data() + batch.layout.result);
  for (const Rect& strip : SumStrips(batch.plan.partial_sum_rects[batch.shape.known_means])) {
    RETURN_IF_ERROR(context_->Check(
        LaunchSumChannels(pooled, {sums, strip}, views.tiles, batch.precision, queue_.get()),
        "launch of sum_channels"));
    sums += size_t{1} * views.tiles * PlaneCount(pooled.channels) * kPlaneChannels;
  }
  return absl::OkStatus();
}

bool CudaStream::IsOverflowed(const Batch& batch, size_t tile) const {
  return ReceivedMark(batch, batch.layout.lost + tile * sizeof(uint32_t));
}

bool CudaStream::HasGivenUp(const Batch& batch) const {
  return ReceivedMark(batch, batch.layout.gave_up);
}

bool CudaStream::ReceivedMark(const Batch& batch, size_t at) const {
  uint32_t mark = 0;
  std::memcpy(&mark, received_.data() + at - batch.layout.result, sizeof(mark));
  return mark != 0;
}

void CudaStream::DeliverPixels(const Batch& batch, size_t tile) const {
  const MutableImageView& dst = batch.tasks[tile]->dst;
  const size_t row_bytes =
      size_t{1} * dst.spec.width_px * kRgbChannels * SampleBytes(dst.spec.type);
  const uint8_t* src = received_.data() + tile * row_bytes * dst.spec.height_px;
  for (int y = 0; y < dst.spec.height_px; ++y, src += row_bytes) {
    CopyRgb(src, dst.spec.width_px, dst.spec, dst.row(y));
  }
}

void CudaStream::DeliverSums(const Batch& batch, size_t tile) const {
  const Program& program = batch.executable.program();
  const int pooling = program.poolings[batch.shape.known_means];
  ChannelSums& sums = *batch.tasks[tile]->pooling->partial_sums;
  sums = ChannelSums(program.network.layers[pooling].out_channels);
  const size_t channels = size_t{1} * PlaneCount(sums.channels()) * kPlaneChannels;
  const auto* const values = reinterpret_cast<const int64_t*>(received_.data());
  const size_t strips = SumStrips(batch.plan.partial_sum_rects[batch.shape.known_means]).size();
  for (size_t strip = 0; strip < strips; ++strip) {
    const int64_t* const own = values + (strip * batch.shape.tiles + tile) * channels;
    for (size_t c = 0; c < sums.channels(); ++c) {
      // In two parts. A double holds each exactly.
      const int64_t low = own[c] % (int64_t{1} << 32);
      sums.Add(c, static_cast<double>(own[c] - low) / kSumUnit);
      sums.Add(c, static_cast<double>(low) / kSumUnit);
    }
  }
}

}  // namespace upscaled::cuda
