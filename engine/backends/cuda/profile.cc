#include "engine/backends/cuda/profile.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>
#include <utility>

#include "engine/backends/cuda/batch_views.h"
#include "engine/backends/cuda/kernels/pixels.h"
#include "engine/base/status_macros.h"

namespace upscaled::cuda {
namespace {

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// A tile with its source and means on the device.
class Profiler {
 public:
  Profiler(const CudaExecutable& executable, const TilePlace& tile)
      : executable_(executable), context_(executable.context()) {
    const Program& program = executable.program();
    plan_ = PlaceTile(program, executable.Plan(tile.tile, tile.image));
    shape_.known_means = program.poolings.size();
    sums_added_.resize(program.poolings.size());
    layout_ = LayOut(program, plan_, executable.precision(), shape_);
  }

  absl::Status Prepare() {
    RETURN_IF_ERROR(context_->Enter());
    RETURN_IF_ERROR(executable_.CheckPlan(plan_));
    ASSIGN_OR_RETURN(queue_, CreateStream(context_));
    ASSIGN_OR_RETURN(memory_, AllocateDevice(context_, layout_.bytes, "a profiled tile"));
    std::vector<std::byte> sent(layout_.sent_bytes);
    std::mt19937 random(1);
    for (std::byte& byte : sent) byte = static_cast<std::byte>(random());
    const float mean = 0.5f;
    for (size_t i = 0; i < layout_.source / sizeof(mean); ++i) {
      std::memcpy(&sent[i * sizeof(mean)], &mean, sizeof(mean));
    }
    RETURN_IF_ERROR(context_->Check(cudaMemcpyAsync(memory_.data(), sent.data(), sent.size(),
                                                    cudaMemcpyHostToDevice, queue_.get()),
                                    "cudaMemcpyAsync"));
    RETURN_IF_ERROR(Wait());  // `sent` goes
    ASSIGN_OR_RETURN(sums_, AllocateDevice(context_, SumBytes(), "a profiled tile's sums"));
    RETURN_IF_ERROR(context_->Check(cudaMemsetAsync(sums_.data(), 0, SumBytes(), queue_.get()),
                                    "cudaMemsetAsync"));
    views_ = ViewsOf(executable_.program(), plan_, executable_.precision(), shape_, layout_,
                     memory_.data(), memory_.data() + layout_.tensors);
    const size_t steps = executable_.kernels(executable_.precision()).size() + 1;
    for (size_t i = 0; i <= steps; ++i) {
      ASSIGN_OR_RETURN(events_.emplace_back(), CreateEvent(context_));
    }
    return absl::OkStatus();
  }

  // Until the device's clock is up.
  absl::Status WarmUp() {
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + std::chrono::milliseconds(300);
    do {
      RETURN_IF_ERROR(RunGraph().status());
    } while (Clock::now() < end);
    return absl::OkStatus();
  }

  // Seconds of each step, the store of pixels included. Behind another run, so the first one waits
  // in the queue when its time begins.
  absl::StatusOr<std::vector<double>> RunSteps() {
    RETURN_IF_ERROR(Enqueue(/*marks=*/false));
    RETURN_IF_ERROR(Enqueue(/*marks=*/true));
    RETURN_IF_ERROR(Wait());
    std::vector<double> seconds;
    for (size_t i = 0; i + 1 < events_.size(); ++i) {
      ASSIGN_OR_RETURN(seconds.emplace_back(), Between(i, i + 1));
    }
    return seconds;
  }

  // Seconds of all steps, behind another run as well.
  absl::StatusOr<double> RunGraph() {
    if (graph_ == nullptr) {
      ASSIGN_OR_RETURN(graph_, Capture(context_, queue_.get(), [this] { return Enqueue(false); }));
    }
    RETURN_IF_ERROR(LaunchGraph());
    RETURN_IF_ERROR(Mark(0));
    RETURN_IF_ERROR(LaunchGraph());
    RETURN_IF_ERROR(Mark(1));
    RETURN_IF_ERROR(Wait());
    return Between(0, 1);
  }

  size_t bytes() const { return layout_.bytes; }
  const std::vector<bool>& sums_added() const { return sums_added_; }

 private:
  // Bytes for the sums of any pooling: all add to the same ones.
  size_t SumBytes() const {
    const Program& program = executable_.program();
    size_t planes = 1;
    for (const int pooling : program.poolings) {
      planes = std::max<size_t>(planes, PlaneCount(program.network.layers[pooling].out_channels));
    }
    return planes * kPlaneChannels * sizeof(int64_t);
  }
  // Before the step of a pooling's input.
  void SetSumsOf(const StepKernel& kernel) {
    const Program& program = executable_.program();
    for (size_t i = 0; i < program.poolings.size(); ++i) {
      if (program.network.layers[program.poolings[i]].inputs[0] != kernel.node().layer()) continue;
      SetSums(program, plan_, i, reinterpret_cast<int64_t*>(sums_.data()), views_);
      sums_added_[i] = kernel.AddsSums(views_);
    }
  }

  absl::Status Wait() {
    return context_->Check(cudaStreamSynchronize(queue_.get()), "cudaStreamSynchronize");
  }
  absl::Status LaunchGraph() {
    return context_->Check(cudaGraphLaunch(graph_.get(), queue_.get()), "cudaGraphLaunch");
  }
  absl::Status Mark(size_t event) {
    return context_->Check(cudaEventRecord(events_[event].get(), queue_.get()), "cudaEventRecord");
  }
  absl::StatusOr<double> Between(size_t first, size_t second) {
    float milliseconds = 0;
    RETURN_IF_ERROR(context_->Check(
        cudaEventElapsedTime(&milliseconds, events_[first].get(), events_[second].get()),
        "cudaEventElapsedTime"));
    return milliseconds * 1e-3;
  }

  absl::Status Enqueue(bool marks) {
    const auto mark = [&](size_t event) { return marks ? Mark(event) : absl::OkStatus(); };
    size_t event = 0;
    RETURN_IF_ERROR(mark(event));
    for (const StepKernel& kernel : executable_.kernels(executable_.precision())) {
      SetSumsOf(kernel);
      RETURN_IF_ERROR(kernel.Enqueue(*context_, views_, queue_.get()));
      RETURN_IF_ERROR(mark(++event));
    }
    if (!executable_.program().writes_samples) {
      RETURN_IF_ERROR(
          context_->Check(LaunchStorePixels(views_.tensors.back(), views_.samples, views_.tiles,
                                            executable_.precision(), queue_.get()),
                          "launch of store_pixels"));
    }
    return mark(++event);
  }

  const CudaExecutable& executable_;
  const std::shared_ptr<Context> context_;
  PlacedTile plan_;
  BatchShape shape_;
  BatchLayout layout_;
  BatchViews views_;
  StreamHandle queue_;
  DeviceMemory memory_, sums_;
  std::vector<bool> sums_added_;
  std::vector<EventHandle> events_;
  GraphExecHandle graph_;
};

}  // namespace

absl::StatusOr<TileProfile> ProfileTile(const CudaExecutable& executable, const TilePlace& tile,
                                        int repetitions) {
  Profiler profiler(executable, tile);
  RETURN_IF_ERROR(profiler.Prepare());
  RETURN_IF_ERROR(profiler.RunSteps().status());  // no kernel's first launch in the graph
  RETURN_IF_ERROR(profiler.WarmUp());
  std::vector<std::vector<double>> step_samples;
  std::vector<double> graph_samples;
  for (int i = 0; i < repetitions; ++i) {
    ASSIGN_OR_RETURN(const std::vector<double> steps, profiler.RunSteps());
    step_samples.resize(steps.size());
    for (size_t s = 0; s < steps.size(); ++s) step_samples[s].push_back(steps[s]);
    ASSIGN_OR_RETURN(graph_samples.emplace_back(), profiler.RunGraph());
  }
  TileProfile profile;
  profile.compute_seconds = Median(std::move(graph_samples));
  profile.bytes = static_cast<double>(profiler.bytes());
  profile.sums_added = profiler.sums_added();
  const std::vector<StepKernel>& kernels = executable.kernels(executable.precision());
  for (size_t s = 0; s < kernels.size(); ++s) {
    profile.steps.push_back({kernels[s].node().main, std::string(kernels[s].name()),
                             Median(std::move(step_samples[s]))});
  }
  if (!executable.program().writes_samples) {
    profile.steps.push_back(
        {kernels.back().node().layer(), "store_pixels", Median(std::move(step_samples.back()))});
  }
  return profile;
}

}  // namespace upscaled::cuda
