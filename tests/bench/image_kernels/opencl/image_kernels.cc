#include "tests/bench/image_kernels/opencl/image_kernels.h"

#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "engine/backends/opencl/cl_status.h"
#include "engine/backends/opencl/launcher.h"
#include "engine/backends/opencl/layer_constants.h"
#include "engine/base/check.h"
#include "engine/base/int_math.h"
#include "engine/base/status_macros.h"
#include "engine/image/bilateral_window.h"
#include "engine/image/quality.h"
#include "tests/bench/image_kernels/opencl/sources.h"

namespace upscaled::opencl {
namespace {

// As reduce.cl has them.
constexpr int kGroup = 128, kRunRows = 64, kErrorRun = 2048;
constexpr Size kSsimGroup = {16, 8};

// A kernel for a step. An item computes `item`.width x `item`.height of its domain (pixels, values,
// rows); a group has `group` items.
struct Step {
  ImageStep step;
  const char* function;
  WorkSize group;
  Size item = {1, 1};
};

constexpr Step kSteps[] = {
    {{ImageOp::kCopy, "copy"}, "copy", {64, 1, 1}, {4, 1}},
    {{ImageOp::kBilateral, "naive"}, "bilateral_naive", {16, 16, 1}},
    {{ImageOp::kBilateral, "local memory"}, "bilateral_shared", {16, 16, 1}},
    {{ImageOp::kBilateral, "4 pixels an item"}, "bilateral_wide", {16, 8, 1}, {4, 1}},
    {{ImageOp::kTranspose, "naive"}, "transpose_naive", {32, 8, 1}},
    {{ImageOp::kTranspose, "local memory"}, "transpose_shared", {32, 16, 1}, {1, 2}},
    {{ImageOp::kTranspose, "padded"}, "transpose_padded", {32, 16, 1}, {1, 2}},
    {{ImageOp::kTranspose, "8 values an item"}, "transpose_several", {32, 4, 1}, {1, 8}},
    {{ImageOp::kToPlanes, "naive"}, "to_planes_naive", {64, 1, 1}},
    {{ImageOp::kToPlanes, "a pixel an item"}, "to_planes_pixel", {64, 1, 1}},
    {{ImageOp::kToPlanes, "4 pixels an item"}, "to_planes_several", {64, 1, 1}, {4, 1}},
    {{ImageOp::kFromPlanes, "naive"}, "from_planes_naive", {64, 1, 1}},
    {{ImageOp::kFromPlanes, "a pixel an item"}, "from_planes_pixel", {64, 1, 1}},
    {{ImageOp::kFromPlanes, "4 pixels an item"}, "from_planes_several", {64, 1, 1}, {4, 1}},
    {{ImageOp::kRowStats, "naive"}, "row_stats_naive", {32, 1, 1}},
    {{ImageOp::kRowStats, "local memory"}, "row_stats_shared", {kGroup, 1, 1}},
    {{ImageOp::kRowStats, "4 values a step"}, "row_stats_several", {kGroup, 1, 1}},
    {{ImageOp::kColumnStats, "naive"}, "column_stats_naive", {64, 1, 1}},
    {{ImageOp::kColumnStats, "runs of rows"}, "column_stats_runs", {64, 1, 1}, {1, kRunRows}},
    {{ImageOp::kColumnStats, "4 columns an item"},
     "column_stats_several",
     {16, 1, 1},
     {4, kRunRows}},
    {{ImageOp::kSquaredError, "naive"}, "squared_error_naive", {32, 1, 1}},
    {{ImageOp::kSquaredError, "local memory"}, "squared_error_shared", {kGroup, 1, 1}},
    {{ImageOp::kSquaredError, "4 values a step"}, "squared_error_several", {kGroup, 1, 1}},
    {{ImageOp::kSsim, "naive"}, "ssim_naive", {32, 4, 1}},
    {{ImageOp::kSsim, "local memory, separable"}, "ssim_shared", {16, 8, 1}},
};

std::string_view SourceOf(ImageOp op) {
  switch (op) {
    case ImageOp::kBilateral:
      return kBilateralSource;
    case ImageOp::kCopy:
    case ImageOp::kTranspose:
    case ImageOp::kToPlanes:
    case ImageOp::kFromPlanes:
      return kTransposeSource;
    case ImageOp::kRowStats:
    case ImageOp::kColumnStats:
    case ImageOp::kSquaredError:
    case ImageOp::kSsim:
      return kReduceSource;
  }
  return {};
}

class OpenClImageKernels final : public ImageKernels {
 public:
  OpenClImageKernels(std::shared_ptr<Context> context, Launcher launcher)
      : context_(std::move(context)), launcher_(std::move(launcher)) {
    for (const Step& step : kSteps) steps_.push_back(step.step);
  }

  std::span<const ImageStep> steps() const override { return steps_; }

  absl::StatusOr<double> Run(size_t index, const ImageWork& work, std::span<const uint8_t> src,
                             std::span<uint8_t> dst) override {
    const Step& step = kSteps[index];
    UPSCALED_CHECK(step.step.op == work.op && src.size() == SourceBytes(work) &&
                   dst.size() == ResultBytes(work));
    ASSIGN_OR_RETURN(const cl::Buffer source, MakeBuffer(src.size()));
    RETURN_IF_ERROR(
        ToStatus(launcher_.queue().enqueueWriteBuffer(source, CL_TRUE, 0, src.size(), src.data()),
                 "clEnqueueWriteBuffer"));
    RETURN_IF_ERROR(launcher_.TakeSeconds().status());  // drops the time of what ran before
    if (work.op == ImageOp::kSquaredError || work.op == ImageOp::kSsim) {
      return SumUp(step, work, source, dst);
    }
    ASSIGN_OR_RETURN(const cl::Buffer result, MakeBuffer(dst.size()));
    RETURN_IF_ERROR(Enqueue(step, work, source, result));
    ASSIGN_OR_RETURN(const double seconds, launcher_.TakeSeconds());
    RETURN_IF_ERROR(Read(result, dst.size(), dst.data()));
    return seconds;
  }

 private:
  absl::StatusOr<cl::Buffer> MakeBuffer(size_t bytes) const {
    cl_int error = CL_SUCCESS;
    cl::Buffer buffer(context_->handle, CL_MEM_READ_WRITE, bytes, nullptr, &error);
    RETURN_IF_ERROR(ToStatus(error, "clCreateBuffer for an image kernel"));
    return buffer;
  }

  absl::Status Read(const cl::Buffer& buffer, size_t bytes, void* dst) {
    return ToStatus(launcher_.queue().enqueueReadBuffer(buffer, CL_TRUE, 0, bytes, dst),
                    "clEnqueueReadBuffer");
  }

  absl::StatusOr<KernelFunction> Function(ImageOp op, const char* name) {
    ASSIGN_OR_RETURN(cl::Program program, context_->programs.Get(SourceOf(op), ""));
    return KernelFunction{std::move(program), name};
  }

  // Runs the step over `extent` of its items.
  template <typename... Args>
  absl::Status Launch(const Step& step, Size extent, const Args&... args) {
    ASSIGN_OR_RETURN(const KernelFunction function, Function(step.step.op, step.function));
    const WorkSize items = {static_cast<size_t>(CeilDiv(extent.width, step.item.width)),
                            static_cast<size_t>(CeilDiv(extent.height, step.item.height)), 1};
    return launcher_.Launch(function, items, step.group, args...);
  }

  // A step with one buffer to read and one to write.
  absl::Status Enqueue(const Step& step, const ImageWork& work, const cl::Buffer& src,
                       const cl::Buffer& dst) {
    const Size size = work.size;
    const int pixels = static_cast<int>(size.Area());
    switch (work.op) {
      case ImageOp::kBilateral: {
        const BilateralWindow window(work.bilateral, 255);
        ASSIGN_OR_RETURN(const cl::Buffer space, UploadFloats(*context_, window.space));
        return Launch(step, size, src, size, cl_int{window.radius_px}, cl_float{window.range},
                      space, dst);
      }
      case ImageOp::kTranspose:
        return Launch(step, size, src, size, dst);
      case ImageOp::kRowStats: {
        const bool grouped = step.group[0] == kGroup;  // a group a row
        return Launch(step, {grouped ? size.height * kGroup : size.height, 1}, src, size, dst);
      }
      case ImageOp::kColumnStats:
        return EnqueueColumnStats(step, size, src, dst);
      case ImageOp::kToPlanes:
      case ImageOp::kFromPlanes: {
        // The naive kernels have an item for each value of the result.
        const bool naive = step.step.name == "naive";
        const int values = work.op == ImageOp::kToPlanes ? 8 : 3;
        return Launch(step, {naive ? values * pixels : pixels, 1}, src, cl_int{pixels}, dst);
      }
      default:
        return Launch(step, {pixels, 1}, src, cl_int{pixels}, dst);
    }
  }

  absl::Status EnqueueColumnStats(const Step& step, Size size, const cl::Buffer& src,
                                  const cl::Buffer& dst) {
    if (step.item.height == 1) return Launch(step, {size.width, 1}, src, size, dst);
    const int runs = CeilDiv(size.height, kRunRows);
    ASSIGN_OR_RETURN(const cl::Buffer partial, MakeBuffer(sizeof(LineStats) * runs * size.width));
    RETURN_IF_ERROR(Launch(step, size, src, size, partial));
    const Step merge{step.step, "column_stats_merge", {64, 1, 1}};
    return Launch(merge, {size.width, 1}, partial, size, dst);
  }

  // Steps with sums of parts of the planes at their end; the second pass is the host's, in their
  // order.
  absl::StatusOr<double> SumUp(const Step& step, const ImageWork& work, const cl::Buffer& src,
                               std::span<uint8_t> dst) {
    std::vector<float> sums;
    const auto enqueue = work.op == ImageOp::kSsim ? &OpenClImageKernels::EnqueueSsim
                                                   : &OpenClImageKernels::EnqueueSquaredError;
    ASSIGN_OR_RETURN(const cl::Buffer buffer, (this->*enqueue)(step, work.size, src, sums));
    ASSIGN_OR_RETURN(const double seconds, launcher_.TakeSeconds());
    RETURN_IF_ERROR(Read(buffer, sums.size() * sizeof(float), sums.data()));
    const double total = std::accumulate(sums.begin(), sums.end(), 0.0);
    std::memcpy(dst.data(), &total, sizeof(total));
    return seconds;
  }

  absl::StatusOr<cl::Buffer> EnqueueSquaredError(const Step& step, Size size, const cl::Buffer& src,
                                                 std::vector<float>& sums) {
    const int count = static_cast<int>(size.Area()), runs = CeilDiv(count, kErrorRun);
    sums.resize(runs);
    ASSIGN_OR_RETURN(cl::Buffer result, MakeBuffer(sums.size() * sizeof(float)));
    const bool grouped = step.group[0] == kGroup;  // a group a run
    RETURN_IF_ERROR(Launch(step, {grouped ? runs * kGroup : runs, 1}, src, cl_int{count}, result));
    return result;
  }

  absl::StatusOr<cl::Buffer> EnqueueSsim(const Step& step, Size size, const cl::Buffer& src,
                                         std::vector<float>& sums) {
    const Size out{size.width - kSsimWindow + 1, size.height - kSsimWindow + 1};
    const auto weights = SsimWindow();
    ASSIGN_OR_RETURN(const cl::Buffer window,
                     UploadFloats(*context_, std::vector<float>(weights.begin(), weights.end())));
    if (step.step.name != "naive") {
      sums.resize(static_cast<size_t>(CeilDiv(out.width, kSsimGroup.width)) *
                  CeilDiv(out.height, kSsimGroup.height));
      ASSIGN_OR_RETURN(cl::Buffer result, MakeBuffer(sums.size() * sizeof(float)));
      RETURN_IF_ERROR(Launch(step, out, src, size, out, window, result));
      return result;
    }
    sums.resize(out.height);
    ASSIGN_OR_RETURN(const cl::Buffer values, MakeBuffer(sizeof(float) * out.Area()));
    RETURN_IF_ERROR(Launch(step, out, src, size, out, window, values));
    ASSIGN_OR_RETURN(cl::Buffer result, MakeBuffer(sums.size() * sizeof(float)));
    const Step rows{step.step, "ssim_sum_rows", {16, 1, 1}};
    RETURN_IF_ERROR(Launch(rows, {out.height, 1}, values, out, result));
    return result;
  }

  const std::shared_ptr<Context> context_;
  Launcher launcher_;
  std::vector<ImageStep> steps_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ImageKernels>> CreateImageKernels(std::shared_ptr<Context> context) {
  ASSIGN_OR_RETURN(Launcher launcher, Launcher::Create(*context, /*profile=*/true));
  return std::make_unique<OpenClImageKernels>(std::move(context), std::move(launcher));
}

}  // namespace upscaled::opencl
