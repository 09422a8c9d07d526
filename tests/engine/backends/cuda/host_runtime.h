// The CUDA runtime as this backend uses it, over the host's memory: one device, streams with
// immediate execution, graphs to replay the captured launches. With host_kernels.cc in place of the
// kernels the whole backend runs without a GPU, and its failures can be made to happen.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <string>

namespace upscaled::test {

// Runs `kernel` when the stream comes to it: at once, or in every launch of the captured graph. As
// a kernel's launch does, answers with the thread's last error, from any call.
cudaError_t Launch(cudaStream_t stream, std::function<void()> kernel);

// The next call of this name ("launch" for a kernel's) answers with the error. If it spoils the
// context, all later calls answer with it, too, until the device is reset. Calls without a context,
// such as cudaSetDevice and cudaFree(nullptr), still succeed.
void FailNextCall(const std::string& name, cudaError_t error);

// Whether a reset gives the process another context, as at first. After a failed one, calls answer
// with cudaErrorDevicesUnavailable, as some drivers have it, until this is set again.
void SetResetWorks(bool works);

// Whether the device ends its work. If not, its events are never reached, and calls that wait for
// it block until it does.
void SetAnswers(bool answers);
// Whether a call to the context ends the program, with a message.
void SetForbidden(bool forbidden);

// How much of the device's memory may be taken.
void SetDeviceBytes(size_t bytes);
// How much of the device's and of pinned memory is taken.
size_t AllocatedBytes();
// Graphs captured since the program began.
int CapturedGraphs();

}  // namespace upscaled::test
