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
#include "engine/base/finite.h"
#include "engine/base/int_math.h"
#include "engine/base/status_macros.h"
#include "engine/graph/pooling.h"
#include "engine/graph/tile_geometry.h"

namespace upscaled::cuda {
namespace {

constexpr int kRgb = 3;
constexpr double kSumUnit = 1 << 24;  // as kernels scale sums

BatchShape ShapeOf(const TileTask& task) {
  BatchShape shape{.src_type = task.src.spec.type,
                   .src_channels = task.src.spec.channels,
                   .known_means = task.means.size(),
                   .gathers = task.sums != nullptr};
  if (!shape.gathers) shape.dst_type = task.dst.spec.type;
  return shape;
}

// Copies packed RGB samples into the first three channels of a row.
void CopyColour(const uint8_t* rgb, int width_px, size_t sample_bytes, size_t pixel_bytes,
                uint8_t* row) {
  const size_t rgb_bytes = kRgb * sample_bytes;
  if (pixel_bytes == rgb_bytes) {
    std::memcpy(row, rgb, width_px * rgb_bytes);
    return;
  }
  for (int x = 0; x < width_px; ++x) {
    std::memcpy(row + x * pixel_bytes, rgb + x * rgb_bytes, rgb_bytes);
  }
}

// Of an RGB image of floats.
bool AllFinite(const ImageView& image) {
  for (int y = 0; y < image.height_px(); ++y) {
    if (!upscaled::AllFinite(image.row_as<float>(y), image.width_px() * kRgb)) return false;
  }
  return true;
}

// Copies to `dst` those pixels of `exact` that are no numbers in `computed`.
void ReplaceOverflowed(const ImageView& computed, const ImageView& exact,
                       const MutableImageView& dst) {
  const size_t exact_bytes = exact.spec.pixel_bytes(), dst_bytes = dst.spec.pixel_bytes();
  for (int y = 0; y < computed.height_px(); ++y) {
    for (int x = 0; x < computed.width_px(); ++x) {
      if (upscaled::AllFinite(computed.row_as<float>(y) + x * kRgb, kRgb)) continue;
      std::memcpy(dst.row(y) + x * dst_bytes, exact.row(y) + x * exact_bytes, exact_bytes);
    }
  }
}

}  // namespace

absl::Status CudaStream::Run(const Executable& executable, std::span<const TileTask> tiles) {
  RETURN_IF_ERROR(Prepare());
  const auto& own = static_cast<const CudaExecutable&>(executable);
  std::vector<Batch> batches;
  for (const TileTask& task : tiles) {
    RETURN_IF_ERROR(CheckTileTask(executable, task));
    ASSIGN_OR_RETURN(Batch single, MakeBatch(own, own.precision(), task));
    RETURN_IF_ERROR(Keep(single));
    if (!Join(single, batches)) batches.push_back(std::move(single));
  }
  for (const Batch& batch : batches) {
    RETURN_IF_ERROR(RunBatch(batch));
    if (batch.precision == Precision::kExact || batch.shape.gathers) continue;
    std::vector<const TileTask*> lost;
    for (size_t t = 0; t < batch.tasks.size(); ++t) {
      if (IsOverflowed(batch, t)) lost.push_back(batch.tasks[t]);
    }
    for (const TileTask* task : lost) RETURN_IF_ERROR(RunExactly(own, *task));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<LayerProfile>> CudaStream::Profile(const Executable& executable,
                                                              const TileTask& task) {
  RETURN_IF_ERROR(Run(executable, {&task, 1}));
  const auto& own = static_cast<const CudaExecutable&>(executable);
  ASSIGN_OR_RETURN(const TileProfile profile,
                   ProfileTile(own, {task.image, task.tile}, /*repetitions=*/1));
  const Network& network = own.network();
  const std::vector<Rect> regions = LayerRegions(network, task.image, task.tile, {});
  std::vector<LayerProfile> layers;
  for (size_t i = 0; i < network.layers.size(); ++i) {
    layers.push_back(DescribeLayer(network, i, regions, StorageBytes(own.precision())));
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
              .plan = PlanTile(program, {task.image, task.tile}),
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
  Image halves({task.dst.spec.width_px, task.dst.spec.height_px, kRgb, SampleType::kF32});
  TileTask probe = task;
  probe.dst = halves.mutable_view();
  RETURN_IF_ERROR(RunTile(executable, Precision::kFast, probe));
  // In quarters, which take less memory in fp32 than the whole did in fp16.
  const Rect& tile = task.tile;
  const Size step{CeilDiv(tile.width, 2), CeilDiv(tile.height, 2)};
  for (int y = tile.y; y < tile.bottom(); y += step.height) {
    for (int x = tile.x; x < tile.right(); x += step.width) {
      TileTask part = task;
      part.tile = Intersect({x, y, step.width, step.height}, tile);
      const Rect in_dst = Scale({x - tile.x, y - tile.y, part.tile.width, part.tile.height}, scale);
      const ImageView computed = halves.view().Crop(in_dst);
      if (AllFinite(computed)) continue;
      Image exact({in_dst.width, in_dst.height, kRgb, task.dst.spec.type});
      part.dst = exact.mutable_view();
      RETURN_IF_ERROR(RunTile(executable, Precision::kExact, part));
      ReplaceOverflowed(computed, exact.view(), task.dst.Crop(in_dst));
    }
  }
  return absl::OkStatus();
}

CudaStream::GraphKey CudaStream::KeyOf(const Batch& batch) {
  GraphKey key{batch.executable.id(), batch.precision, batch.plan.place, {}, batch.shape};
  if (batch.shape.gathers) key.share = batch.plan.shares[batch.shape.known_means];
  return key;
}

bool CudaStream::Join(const Batch& single, std::vector<Batch>& batches) {
  if (single.kept != nullptr) return false;
  for (Batch& batch : batches) {
    if (batch.kept != nullptr) continue;
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

absl::Status CudaStream::Keep(Batch& single) const {
  const TileTask& task = *single.tasks.front();
  auto* const kept = static_cast<CachedTile*>(task.memory);
  const size_t bytes = single.layout.tensor_bytes();
  if (kept == nullptr || !kept->Begin(task, bytes)) return absl::OkStatus();
  if (kept->memory.bytes() == 0) {
    absl::StatusOr<DeviceMemory> memory = AllocateDevice(context_, bytes, "a activation cache");
    if (!memory.ok()) {
      kept->Drop();
      return absl::IsResourceExhausted(memory.status()) ? absl::OkStatus()  // goes without
                                                        : memory.status();
    }
    kept->memory = *std::move(memory);
  }
  single.kept = kept;
  single.first_layer =
      DeviceActivationCache::FirstLayer(single.executable.program().poolings, task);
  return absl::OkStatus();
}

absl::Status CudaStream::RunBatch(const Batch& batch) {
  RETURN_IF_ERROR(Reserve(batch));
  Pack(batch);
  RETURN_IF_ERROR(Launch(batch));
  RETURN_IF_ERROR(context_->Check(cudaEventRecord(done_.get(), queue_.get()), "cudaEventRecord"));
  RETURN_IF_ERROR(context_->Check(cudaEventSynchronize(done_.get()), "a batch of tiles"));
  for (size_t t = 0; t < batch.tasks.size(); ++t) {
    if (batch.shape.gathers) {
      DeliverSums(batch, t);
    } else {
      DeliverPixels(batch, t);
    }
  }
  if (batch.kept != nullptr) batch.kept->End(*batch.tasks.front());
  return absl::OkStatus();
}

absl::Status CudaStream::Reserve(const Batch& batch) {
  const BatchLayout& layout = batch.layout;
  const size_t own_bytes = batch.kept ? layout.tensors : layout.bytes;
  if (own_bytes <= memory_.bytes() && layout.sent_bytes <= sent_.bytes() &&
      layout.received_bytes <= received_.bytes()) {
    return absl::OkStatus();
  }
  graphs_.Clear();  // of other addresses
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
    for (size_t i = 0; i < layout.means.size(); ++i) {
      const size_t channels = size_t{1} * PlaneCount(task.means[i].size()) * kPlaneChannels;
      float* const dst = reinterpret_cast<float*>(sent_.data() + layout.means[i]) + t * channels;
      std::fill_n(std::copy(task.means[i].begin(), task.means[i].end(), dst),
                  channels - task.means[i].size(), 0.0f);
    }
    if (!batch.SendsImage()) continue;
    const Rect source = batch.executable.InputRect(task.tile, task.image);
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
  if (batch.kept != nullptr) return Enqueue(batch);  // a graph would be of its addresses alone
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
              batch.kept ? batch.kept->memory.data() : memory_.data() + layout.tensors);
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
  for (const Rect& strip : SumStrips(batch.plan.shares[batch.shape.known_means])) {
    RETURN_IF_ERROR(context_->Check(
        LaunchSumChannels(pooled, {sums, strip}, views.tiles, batch.precision, queue_.get()),
        "launch of sum_channels"));
    sums += size_t{1} * views.tiles * PlaneCount(pooled.channels) * kPlaneChannels;
  }
  return absl::OkStatus();
}

bool CudaStream::IsOverflowed(const Batch& batch, size_t tile) const {
  const BatchLayout& layout = batch.layout;
  uint32_t lost = 0;
  std::memcpy(&lost, received_.data() + layout.lost - layout.result + tile * sizeof(lost),
              sizeof(lost));
  return lost != 0;
}

void CudaStream::DeliverPixels(const Batch& batch, size_t tile) const {
  const MutableImageView& dst = batch.tasks[tile]->dst;
  const size_t sample_bytes = SampleBytes(dst.spec.type);
  const size_t row_bytes = size_t{1} * dst.spec.width_px * kRgb * sample_bytes;
  const uint8_t* src = received_.data() + tile * row_bytes * dst.spec.height_px;
  for (int y = 0; y < dst.spec.height_px; ++y, src += row_bytes) {
    CopyColour(src, dst.spec.width_px, sample_bytes, dst.spec.pixel_bytes(), dst.row(y));
  }
}

void CudaStream::DeliverSums(const Batch& batch, size_t tile) const {
  const Program& program = batch.executable.program();
  const int pooling = program.poolings[batch.shape.known_means];
  ChannelSums& sums = *batch.tasks[tile]->sums;
  sums = ChannelSums(program.network.layers[pooling].out_channels);
  const size_t channels = size_t{1} * PlaneCount(sums.channels()) * kPlaneChannels;
  const auto* const values = reinterpret_cast<const int64_t*>(received_.data());
  const size_t strips = SumStrips(batch.plan.shares[batch.shape.known_means]).size();
  for (size_t strip = 0; strip < strips; ++strip) {
    const int64_t* const own = values + (strip * batch.shape.tiles + tile) * channels;
    for (size_t c = 0; c < sums.channels(); ++c) {
      // In two parts, each of which a double holds exactly.
      const int64_t low = own[c] % (int64_t{1} << 32);
      sums.Add(c, static_cast<double>(own[c] - low) / kSumUnit);
      sums.Add(c, static_cast<double>(low) / kSumUnit);
    }
  }
}

}  // namespace upscaled::cuda
