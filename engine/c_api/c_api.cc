// The functions of upscaled.h, over the pipeline. No exception and no type of C++ crosses them.
#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "engine/backends/backend_list.h"
#include "engine/base/cancellation.h"
#include "engine/base/status_macros.h"
#include "engine/c_api/upscaled.h"
#include "engine/model/repository.h"
#include "engine/pipeline/choose_passes.h"
#include "engine/pipeline/local_executor.h"
#include "engine/pipeline/upscaler.h"

// A model on a device. The repository owns the card.
struct upscaled_model {
  upscaled::ModelRepository repository;
  const upscaled::ModelCard* card = nullptr;
  upscaled::Precision precision = upscaled::Precision::kExact;
  std::unique_ptr<upscaled::Backend> backend;
  std::unique_ptr<upscaled::TileExecutor> executor;
  absl::Mutex mutex;  // held while a network is loaded, so that it is loaded once
  std::map<const upscaled::ModelVariant*, std::shared_ptr<const upscaled::Executable>> executables
      ABSL_GUARDED_BY(mutex);
};

namespace upscaled {
namespace {

thread_local std::string last_error;

// Runs a call, keeps the text of its error, returns its code.
int Answer(const std::function<absl::Status()>& call) {
  absl::Status status;
  try {
    status = call();
  } catch (const std::bad_alloc&) {
    status = absl::ResourceExhaustedError("no memory is left");
  } catch (const std::exception& e) {
    status = absl::InternalError(e.what());
  }
  last_error = std::string(status.message());
  return static_cast<int>(status.code());
}

// Returns the caller's structure, with defaults for members that its version of the header lacks.
template <typename T>
absl::StatusOr<T> Complete(const T* given, T defaults) {
  if (given == nullptr) return defaults;
  if (given->struct_bytes < sizeof(size_t) || given->struct_bytes > sizeof(T)) {
    return absl::InvalidArgumentError(absl::StrCat("struct_bytes is ", given->struct_bytes,
                                                   "; it must be at least ", sizeof(size_t),
                                                   ", at most ", sizeof(T)));
  }
  std::memcpy(&defaults, given, given->struct_bytes);
  return defaults;
}

absl::StatusOr<ImageSpec> SpecOf(const upscaled_image* image) {
  if (image == nullptr) return absl::InvalidArgumentError("the source is null");
  if (image->width_px < 1 || image->height_px < 1) {
    return absl::InvalidArgumentError(absl::StrCat("the source is ", image->width_px, "x",
                                                   image->height_px, "; both must be at least 1"));
  }
  if (image->channels < 1 || image->channels > 4) {
    return absl::InvalidArgumentError(
        absl::StrCat("channels is ", image->channels, "; it must be 1 to 4"));
  }
  if (image->bits != 8 && image->bits != 16) {
    return absl::InvalidArgumentError(
        absl::StrCat("bits is ", image->bits, "; it must be 8 or 16"));
  }
  return ImageSpec{image->width_px, image->height_px, image->channels,
                   image->bits == 8 ? SampleType::kU8 : SampleType::kU16};
}

upscaled_image ImageOf(const ImageSpec& spec) {
  return {spec.width_px, spec.height_px, spec.channels, spec.type == SampleType::kU8 ? 8 : 16};
}

// The models that are installed with the library.
std::filesystem::path InstalledModels() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&upscaled_version), &info) == 0) return UPSCALED_MODEL_FOLDER;
  std::error_code ignored;
  return std::filesystem::weakly_canonical(
      std::filesystem::path(info.dli_fname).parent_path() / UPSCALED_MODEL_FOLDER, ignored);
}

absl::StatusOr<std::shared_ptr<const Executable>> ExecutableOf(upscaled_model& model,
                                                               const ModelPass& pass) {
  absl::MutexLock lock(&model.mutex);
  std::shared_ptr<const Executable>& executable = model.executables[pass.variant];
  if (executable == nullptr) {
    ASSIGN_OR_RETURN(const Network network, LoadNetwork(*pass.model, *pass.variant));
    ASSIGN_OR_RETURN(executable, model.backend->Compile(network, model.precision));
  }
  return executable;
}

constexpr upscaled_request kDefaultRequest = UPSCALED_REQUEST_INIT;

absl::StatusOr<UpscalePlan> PlanRequest(upscaled_model* model, const ImageSpec& source,
                                        const upscaled_request& request) {
  if (model == nullptr) return absl::InvalidArgumentError("the model is null");
  const ModelLinks links(&model->card, 1);
  const TargetSize target{
      .scale = request.scale, .width_px = request.width_px, .height_px = request.height_px};
  ASSIGN_OR_RETURN(const ResolvedTarget resolved,
                   ResolveTarget(target, source.size(), NativeScale(links)));
  ASSIGN_OR_RETURN(const ChosenPasses chosen,
                   ChoosePasses(links, source.size(), resolved.result, request.noise_level));
  std::vector<std::shared_ptr<const Executable>> passes;
  for (const ModelPass& pass : chosen.passes) {
    ASSIGN_OR_RETURN(passes.emplace_back(), ExecutableOf(*model, pass));
  }
  return PlanUpscale(source, resolved.result, std::move(passes),
                     {.tta = request.tta != 0,
                      .result_type = source.type,
                      .concurrency = model->executor->concurrency()});
}

// The source's rows, out of a buffer or a callback.
class CallbackRows final : public RowSource {
 public:
  using ReadRow = std::function<absl::Status(uint8_t* row)>;
  CallbackRows(const ImageSpec& spec, ReadRow read) : spec_(spec), read_(std::move(read)) {}

  const ImageSpec& spec() const override { return spec_; }

  absl::Status ReadRows(MutableImageView rows) override {
    for (int y = 0; y < rows.height_px(); ++y) RETURN_IF_ERROR(read_(rows.row(y)));
    return absl::OkStatus();
  }

 private:
  const ImageSpec spec_;
  const ReadRow read_;
};

// Both are called a row at a time, on the calling thread.
absl::Status Run(upscaled_model* model, const upscaled_image* image, const upscaled_request* given,
                 const CallbackRows::ReadRow& read,
                 const std::function<absl::Status(const ImageSpec&, const uint8_t* row)>& write) {
  ASSIGN_OR_RETURN(const upscaled_request request, Complete(given, kDefaultRequest));
  ASSIGN_OR_RETURN(const ImageSpec spec, SpecOf(image));
  ASSIGN_OR_RETURN(const UpscalePlan plan, PlanRequest(model, spec, request));
  Cancellation cancellation;
  UpscaleProgress progress;
  if (request.progress != nullptr) {
    progress.on_tile = [&](int64_t done, int64_t total) {
      if (request.progress(request.user, done, total) != 0) {
        cancellation.Cancel(absl::CancelledError("progress asked for the end"));
      }
    };
  }
  CallbackRows source(spec, read);
  const auto upscaler = MakeUpscaler(plan, source, *model->executor, &cancellation, progress);
  Image row({plan.result.width_px, 1, plan.result.channels, plan.result.type});
  for (int y = 0; y < plan.result.height_px; ++y) {
    RETURN_IF_ERROR(upscaler->ReadRows(row.mutable_view()));
    RETURN_IF_ERROR(write(plan.result, row.view().row(0)));
  }
  return cancellation.status();
}

absl::Status CheckStride(const char* name, size_t stride_bytes, size_t row_bytes) {
  if (stride_bytes >= row_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is ", stride_bytes, "; a row has ", row_bytes, " bytes"));
}

absl::Status OpenModel(const char* name, const upscaled_model_options* given,
                       upscaled_model** model) {
  if (model == nullptr) return absl::InvalidArgumentError("the place for the model is null");
  *model = nullptr;
  ASSIGN_OR_RETURN(const upscaled_model_options options,
                   Complete(given, {sizeof(upscaled_model_options), nullptr, nullptr, 0, 0}));
  const std::filesystem::path folder =
      options.model_folder != nullptr ? options.model_folder : InstalledModels();
  ASSIGN_OR_RETURN(ModelRepository repository, ModelRepository::Open({folder}));
  ASSIGN_OR_RETURN(auto backend, CreateBackend(options.device != nullptr ? options.device : "auto",
                                               {.threads = options.threads}));
  auto opened = std::unique_ptr<upscaled_model>(
      new upscaled_model{.repository = std::move(repository), .backend = std::move(backend)});
  ASSIGN_OR_RETURN(opened->card, opened->repository.Find(name != nullptr ? name : "general-2x"));
  opened->precision = options.fast != 0 ? Precision::kFast : Precision::kExact;
  opened->executor = MakeLocalExecutor(*opened->backend);
  *model = opened.release();
  return absl::OkStatus();
}

}  // namespace
}  // namespace upscaled

using upscaled::Answer;

const char* upscaled_version(void) { return UPSCALED_VERSION; }

const char* upscaled_error(void) { return upscaled::last_error.c_str(); }

int upscaled_list_devices(void (*found)(void* user, const char* name, const char* description),
                          void* user) {
  return Answer([&]() -> absl::Status {
    if (found == nullptr) return absl::InvalidArgumentError("the callback is null");
    for (const auto& device : upscaled::EnumerateDevices().devices) {
      found(user, device.name.c_str(), device.description.c_str());
    }
    return absl::OkStatus();
  });
}

int upscaled_open_model(const char* name, const upscaled_model_options* options,
                        upscaled_model** model) {
  return Answer([&] { return upscaled::OpenModel(name, options, model); });
}

void upscaled_close_model(upscaled_model* model) { delete model; }

int upscaled_plan(upscaled_model* model, const upscaled_image* source,
                  const upscaled_request* request, upscaled_plan_result* plan) {
  return Answer([&]() -> absl::Status {
    if (plan == nullptr) return absl::InvalidArgumentError("the place for the plan is null");
    ASSIGN_OR_RETURN(upscaled_plan_result answer, upscaled::Complete(plan, upscaled_plan_result{}));
    ASSIGN_OR_RETURN(const upscaled_request complete,
                     upscaled::Complete(request, upscaled::kDefaultRequest));
    ASSIGN_OR_RETURN(const upscaled::ImageSpec spec, upscaled::SpecOf(source));
    ASSIGN_OR_RETURN(const upscaled::UpscalePlan made,
                     upscaled::PlanRequest(model, spec, complete));
    answer.result = upscaled::ImageOf(made.result);
    answer.multiply_adds = made.cost;
    answer.memory_bytes = static_cast<int64_t>(made.memory_bytes);
    std::memcpy(plan, &answer, answer.struct_bytes);
    return absl::OkStatus();
  });
}

int upscaled_run(upscaled_model* model, const upscaled_image* source,
                 const upscaled_request* request, const void* pixels, size_t stride_bytes,
                 void* result, size_t result_stride_bytes) {
  return Answer([&]() -> absl::Status {
    if (pixels == nullptr || result == nullptr) {
      return absl::InvalidArgumentError("a buffer is null");
    }
    ASSIGN_OR_RETURN(const upscaled::ImageSpec spec, upscaled::SpecOf(source));
    RETURN_IF_ERROR(upscaled::CheckStride("stride_bytes", stride_bytes, spec.row_bytes()));
    auto* from = static_cast<const uint8_t*>(pixels);
    auto* to = static_cast<uint8_t*>(result);
    return upscaled::Run(
        model, source, request,
        [&](uint8_t* row) {
          std::memcpy(row, from, spec.row_bytes());
          from += stride_bytes;
          return absl::OkStatus();
        },
        [&](const upscaled::ImageSpec& made, const uint8_t* row) {
          RETURN_IF_ERROR(
              upscaled::CheckStride("result_stride_bytes", result_stride_bytes, made.row_bytes()));
          std::memcpy(to, row, made.row_bytes());
          to += result_stride_bytes;
          return absl::OkStatus();
        });
  });
}

int upscaled_run_rows(upscaled_model* model, const upscaled_image* source,
                      const upscaled_request* request, int (*read)(void* user, void* row),
                      int (*write)(void* user, const void* row)) {
  return Answer([&]() -> absl::Status {
    if (read == nullptr || write == nullptr) {
      return absl::InvalidArgumentError("a callback is null");
    }
    void* user = nullptr;
    if (request != nullptr) {
      ASSIGN_OR_RETURN(const upscaled_request complete,
                       upscaled::Complete(request, upscaled::kDefaultRequest));
      user = complete.user;
    }
    const auto go_on = [](int answer, const char* name) {
      return answer == 0 ? absl::OkStatus()
                         : absl::CancelledError(absl::StrCat(name, " asked for the end"));
    };
    return upscaled::Run(
        model, source, request, [&](uint8_t* row) { return go_on(read(user, row), "read"); },
        [&](const upscaled::ImageSpec&, const uint8_t* row) {
          return go_on(write(user, row), "write");
        });
  });
}
