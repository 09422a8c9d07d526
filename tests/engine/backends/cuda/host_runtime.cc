#include "tests/engine/backends/cuda/host_runtime.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "engine/backends/cuda/cuda_status.h"

struct CUgraph_st {
  std::vector<std::function<void()>> commands;
};
struct CUgraphExec_st {
  std::vector<std::function<void()>> commands;
};
struct CUstream_st {
  bool captures = false;
  std::vector<std::function<void()>> captured;
};
struct CUevent_st {
  std::chrono::steady_clock::time_point recorded;
};

namespace upscaled::test {
namespace {

// The state shared by the process, as with the real runtime.
struct Runtime {
  std::mutex mutex;
  std::map<std::string, cudaError_t> failures;  // those of the next calls
  cudaError_t spoiled = cudaSuccess;
  bool reset_works = true;
  bool answers = true, forbidden = false;
  size_t device_bytes = size_t{16} << 30;
  std::map<void*, size_t> allocated;
  std::map<void*, std::shared_ptr<void>> handles;
  int captured_graphs = 0;
};

Runtime& TheRuntime() {
  static Runtime* const runtime = new Runtime;
  return *runtime;
}

// The calling thread's last error; successful calls leave it.
thread_local cudaError_t last_error = cudaSuccess;

cudaError_t Note(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

// The answer of a call without a context, before it does anything.
cudaError_t BeginWithoutContext(const std::string& name) {
  Runtime& runtime = TheRuntime();
  const std::lock_guard lock(runtime.mutex);
  const auto failure = runtime.failures.find(name);
  if (failure == runtime.failures.end()) return cudaSuccess;
  const cudaError_t error = failure->second;
  runtime.failures.erase(failure);
  if (cuda::LosesContext(error)) runtime.spoiled = error;
  return Note(error);
}

cudaError_t Spoiled() {
  const std::lock_guard lock(TheRuntime().mutex);
  return TheRuntime().spoiled;
}

void EndIfForbidden(const std::string& name) {
  const std::lock_guard lock(TheRuntime().mutex);
  if (!TheRuntime().forbidden) return;
  std::fprintf(stderr, "%s was called\n", name.c_str());
  std::_Exit(99);
}

// Blocks while the device does not answer.
void AwaitAnswer() {
  const auto answers = [] {
    const std::lock_guard lock(TheRuntime().mutex);
    return TheRuntime().answers;
  };
  while (!answers()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// The beginning of all others.
cudaError_t Begin(const std::string& name) {
  EndIfForbidden(name);
  if (const cudaError_t error = Spoiled(); error != cudaSuccess) return Note(error);
  return BeginWithoutContext(name);
}

size_t Allocated(const Runtime& runtime) {
  size_t bytes = 0;
  for (const auto& [data, size] : runtime.allocated) bytes += size;
  return bytes;
}

// Poisoned, so a read of unwritten memory gives NaN.
cudaError_t Allocate(const char* name, void** data, size_t bytes) {
  if (const cudaError_t error = Begin(name); error != cudaSuccess) return error;
  Runtime& runtime = TheRuntime();
  const std::lock_guard lock(runtime.mutex);
  if (Allocated(runtime) + bytes > runtime.device_bytes) return Note(cudaErrorMemoryAllocation);
  *data = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(*data, 0xFF, bytes);
  runtime.allocated[*data] = bytes;
  return cudaSuccess;
}

cudaError_t Free(const char* name, void* data) {
  if (data == nullptr) return BeginWithoutContext(name);
  if (const cudaError_t error = Begin(name); error != cudaSuccess) return error;
  Runtime& runtime = TheRuntime();
  const std::lock_guard lock(runtime.mutex);
  if (runtime.allocated.erase(data) == 0) return Note(cudaErrorInvalidValue);
  std::free(data);
  return cudaSuccess;
}

// Does `command` when the stream comes to it.
void Enqueue(cudaStream_t stream, std::function<void()> command) {
  if (stream == nullptr || !stream->captures) return command();
  stream->captured.push_back(std::move(command));
}

}  // namespace

cudaError_t Launch(cudaStream_t stream, std::function<void()> kernel) {
  if (Begin("launch") == cudaSuccess) Enqueue(stream, std::move(kernel));
  return cudaGetLastError();
}

void FailNextCall(const std::string& name, cudaError_t error) {
  Runtime& runtime = TheRuntime();
  const std::lock_guard lock(runtime.mutex);
  runtime.failures[name] = error;
}

void SetResetWorks(bool works) {
  Runtime& runtime = TheRuntime();
  const std::lock_guard lock(runtime.mutex);
  runtime.reset_works = works;
  if (works && runtime.spoiled == cudaErrorDevicesUnavailable) runtime.spoiled = cudaSuccess;
}

void SetAnswers(bool answers) {
  const std::lock_guard lock(TheRuntime().mutex);
  TheRuntime().answers = answers;
}
void SetForbidden(bool forbidden) {
  const std::lock_guard lock(TheRuntime().mutex);
  TheRuntime().forbidden = forbidden;
}

void SetDeviceBytes(size_t bytes) { TheRuntime().device_bytes = bytes; }

size_t AllocatedBytes() {
  Runtime& runtime = TheRuntime();
  const std::lock_guard lock(runtime.mutex);
  return Allocated(runtime);
}

int CapturedGraphs() {
  const std::lock_guard lock(TheRuntime().mutex);
  return TheRuntime().captured_graphs;
}

}  // namespace upscaled::test

using upscaled::test::Allocate;
using upscaled::test::AwaitAnswer;
using upscaled::test::Begin;
using upscaled::test::BeginWithoutContext;
using upscaled::test::Enqueue;
using upscaled::test::Free;
using upscaled::test::last_error;
using upscaled::test::Note;
using upscaled::test::Spoiled;
using upscaled::test::TheRuntime;

namespace {

template <typename T, typename... Args>
cudaError_t Create(const char* name, T** handle, Args&&... args) {
  if (const cudaError_t error = Begin(name); error != cudaSuccess) return error;
  auto created = std::make_shared<T>(T{std::forward<Args>(args)...});
  *handle = created.get();
  const std::lock_guard lock(TheRuntime().mutex);
  TheRuntime().handles[*handle] = std::move(created);
  return cudaSuccess;
}

template <typename T>
cudaError_t Destroy(const char* name, T* handle) {
  if (const cudaError_t error = Begin(name); error != cudaSuccess) return error;
  const std::lock_guard lock(TheRuntime().mutex);
  return Note(TheRuntime().handles.erase(handle) == 1 ? cudaSuccess
                                                      : cudaErrorInvalidResourceHandle);
}

}  // namespace

extern "C" {

const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "cudaErrorOfATest";
}
const char* cudaGetErrorString(cudaError_t /*error*/) { return "as a test wants it"; }
// A spoiled context's cannot be cleared.
cudaError_t cudaGetLastError() {
  return Spoiled() == cudaSuccess ? std::exchange(last_error, cudaSuccess) : last_error;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return BeginWithoutContext("cudaGetDeviceCount");
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int /*device*/) {
  *properties = {};
  std::strcpy(properties->name, "the host");
  properties->major = 8;
  properties->totalGlobalMem = TheRuntime().device_bytes;
  properties->multiProcessorCount = 1;
  properties->sharedMemPerBlockOptin = 99 << 10;
  return BeginWithoutContext("cudaGetDeviceProperties");
}
cudaError_t cudaSetDevice(int /*device*/) { return BeginWithoutContext("cudaSetDevice"); }
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  const cudaError_t error = Begin("cudaDeviceSynchronize");
  AwaitAnswer();
  return error;
}
// Drops all objects of the context, and reports its error once more.
cudaError_t cudaDeviceReset() {
  const std::lock_guard lock(TheRuntime().mutex);
  const cudaError_t after = TheRuntime().reset_works ? cudaSuccess : cudaErrorDevicesUnavailable;
  const cudaError_t spoiled = std::exchange(TheRuntime().spoiled, after);
  for (const auto& [data, bytes] : TheRuntime().allocated) std::free(data);
  TheRuntime().allocated.clear();
  TheRuntime().handles.clear();
  return Note(spoiled);
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* /*function*/) {
  *attributes = {};
  return Begin("cudaFuncGetAttributes");
}

cudaError_t cudaMalloc(void** data, size_t bytes) { return Allocate("cudaMalloc", data, bytes); }
cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned int /*flags*/) {
  return Allocate("cudaHostAlloc", data, bytes);
}
cudaError_t cudaFree(void* data) { return Free("cudaFree", data); }
cudaError_t cudaFreeHost(void* data) { return Free("cudaFreeHost", data); }
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *total = TheRuntime().device_bytes;
  *free = *total - upscaled::test::AllocatedBytes();
  return Begin("cudaMemGetInfo");
}
cudaError_t cudaMemcpy(void* dst, const void* src, size_t bytes, cudaMemcpyKind /*kind*/) {
  if (const cudaError_t error = Begin("cudaMemcpy"); error != cudaSuccess) return error;
  std::memcpy(dst, src, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* dst, const void* src, size_t bytes, cudaMemcpyKind /*kind*/,
                            cudaStream_t stream) {
  if (const cudaError_t error = Begin("cudaMemcpyAsync"); error != cudaSuccess) return error;
  Enqueue(stream, [=] { std::memcpy(dst, src, bytes); });
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* data, int value, size_t bytes, cudaStream_t stream) {
  if (const cudaError_t error = Begin("cudaMemsetAsync"); error != cudaSuccess) return error;
  Enqueue(stream, [=] { std::memset(data, value, bytes); });
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int /*flags*/) {
  return Create("cudaStreamCreateWithFlags", stream);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) { return Destroy("cudaStreamDestroy", stream); }
cudaError_t cudaStreamSynchronize(cudaStream_t /*stream*/) {
  const cudaError_t error = Begin("cudaStreamSynchronize");
  AwaitAnswer();
  return error;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int /*flags*/) {
  return Create("cudaEventCreateWithFlags", event);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) { return Destroy("cudaEventDestroy", event); }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (const cudaError_t error = Begin("cudaEventRecord"); error != cudaSuccess) return error;
  Enqueue(stream, [=] { event->recorded = std::chrono::steady_clock::now(); });
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t /*event*/) {
  if (const cudaError_t error = Begin("cudaEventQuery"); error != cudaSuccess) return error;
  const std::lock_guard lock(TheRuntime().mutex);
  return TheRuntime().answers ? cudaSuccess : Note(cudaErrorNotReady);
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  *milliseconds = std::chrono::duration<float, std::milli>(end->recorded - begin->recorded).count();
  return Begin("cudaEventElapsedTime");
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode /*mode*/) {
  if (const cudaError_t error = Begin("cudaStreamBeginCapture"); error != cudaSuccess) return error;
  stream->captures = true;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  stream->captures = false;
  {
    const std::lock_guard lock(TheRuntime().mutex);
    ++TheRuntime().captured_graphs;
  }
  return Create("cudaStreamEndCapture", graph, std::exchange(stream->captured, {}));
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return Destroy("cudaGraphDestroy", graph); }
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long /*flags*/) {  // NOLINT: the runtime's type
  return Create("cudaGraphInstantiate", executable, graph->commands);
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return Destroy("cudaGraphExecDestroy", executable);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t /*stream*/) {
  if (const cudaError_t error = Begin("cudaGraphLaunch"); error != cudaSuccess) return error;
  for (const auto& command : executable->commands) command();
  return cudaSuccess;
}

}  // extern "C"
