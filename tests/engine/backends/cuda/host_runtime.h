// The CUDA runtime as this backend uses it, over the host's memory: one device, streams that run at
// once, graphs that replay what was captured. With host_kernels.cc in place of the kernels the
// whole backend runs where there is no GPU, and its failures can be made to happen.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <string>

namespace upscaled::test {

// Runs `kernel` when the stream comes to it: at once, or in every launch of what is captured. As a
// kernel's launch does, answers with the thread's last error, whichever call that was of.
cudaError_t Launch(cudaStream_t stream, std::function<void()> kernel);

// The next call of this name ("launch" for a kernel's) answers with the error. If that spoils the
// context so do all calls but those that need none, cudaSetDevice and cudaFree(nullptr) among them,
// until the device is reset.
void FailNextCall(const std::string& name, cudaError_t error);

// Whether a reset gives the process another context, as at first. After one that does not, calls
// answer with cudaErrorDevicesUnavailable, as some drivers have it, until this is set again.
void SetResetWorks(bool works);

// Whether the device ends what it is given: events of one that does not are never reached.
void SetAnswers(bool answers);
// Whether a call that asks the context ends the program, with a message.
void SetForbidden(bool forbidden);

// How much of the device's memory may be taken.
void SetDeviceBytes(size_t bytes);
// How much of the device's and of pinned memory is taken.
size_t AllocatedBytes();
// Graphs that were captured since the program began.
int CapturedGraphs();

}  // namespace upscaled::test
