// The programs of one device: compiled when first asked for, from the cache on disk if it has them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "engine/backends/opencl/cl.h"
#include "engine/backends/opencl/device.h"
#include "engine/backends/opencl/program_cache.h"

namespace upscaled::opencl {

// Thread safe.
class Programs {
 public:
  // `cache` may be absent: programs then compile at every start.
  Programs(Device device, cl::Context context, std::optional<ProgramCache> cache);

  // `source` (of sources.h) behind kCommonSource, with -D options. INTERNAL with the compiler's log
  // when it does not compile. A failing cache costs only time.
  absl::StatusOr<cl::Program> Get(std::string_view source, const std::string& options);

  // How many programs came from where.
  struct Origins {
    int cache = 0;
    int source = 0;
  };
  Origins origins() const;

 private:
  using ProgramId = std::pair<const char*, std::string>;  // source, options

  absl::StatusOr<cl::Program> Make(std::string_view source, const std::string& options);
  std::optional<cl::Program> FromCache(const std::string& key, const std::string& options);
  absl::StatusOr<cl::Program> FromSource(const std::string& text, const std::string& options);
  void Store(const std::string& key, const cl::Program& program) const;

  const Device device_;
  const cl::Context context_;
  const std::optional<ProgramCache> cache_;
  mutable absl::Mutex mutex_;
  std::map<ProgramId, cl::Program> programs_ ABSL_GUARDED_BY(mutex_);
  Origins origins_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace upscaled::opencl
