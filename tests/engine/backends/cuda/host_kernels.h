// Counters of the kernels in host_kernels.cc, for tests.
#pragma once

namespace upscaled::test {

// Launches of LaunchSumChannels since the program began; graphs may repeat them.
int SumLaunches();

}  // namespace upscaled::test
