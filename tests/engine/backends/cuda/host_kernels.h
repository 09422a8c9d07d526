// Counters and failures of the kernels in host_kernels.cc, for tests.
#pragma once

namespace upscaled::test {

// Launches of LaunchSumChannels since the program began; graphs may repeat them.
int SumLaunches();

// After `before` others, `count` convolutions give up: their results are NaN, and they say so.
void GiveUp(int before, int count);

}  // namespace upscaled::test
