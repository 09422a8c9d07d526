#include "tests/bench/simulated_cores.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace upscaled::bench {
namespace {

SimulatedMachine MachineOf(int cores) { return {.speeds = std::vector<double>(cores, 1.0)}; }

std::vector<int> AllOf(const SimulatedMachine& machine) {
  std::vector<int> cores(machine.speeds.size());
  std::iota(cores.begin(), cores.end(), 0);
  return cores;
}

TEST(SimulatedCoresTest, EqualCoresShareAStepEvenly) {
  const SimulatedStep step{.units = 224, .seconds = 1};
  for (const int cores : {1, 2, 4, 8, 16}) {
    const SimulatedMachine machine = MachineOf(cores);
    for (const Sharing sharing : {Sharing::kEqualParts, Sharing::kTakenParts}) {
      EXPECT_NEAR(StepSeconds(machine, step, AllOf(machine), sharing), 1.0 / cores, 1e-9);
    }
  }
}

// One of two cores has half its time: equal parts wait for it, taken ones hardly.
TEST(SimulatedCoresTest, ASlowCoreDoesNotSetThePace) {
  SimulatedMachine machine = MachineOf(2);
  for (const int slow : {0, 1}) {
    machine.speeds = {1, 1};
    machine.speeds[slow] = 0.5;
    for (const int units : {80, 107, 240, 480}) {
      const SimulatedStep step{.units = units, .seconds = 1.5};
      EXPECT_GE(StepSeconds(machine, step, AllOf(machine), Sharing::kEqualParts), 1.45);
      EXPECT_LE(StepSeconds(machine, step, AllOf(machine), Sharing::kTakenParts), 1.15) << units;
    }
  }
}

TEST(SimulatedCoresTest, CostsOfSharingCount) {
  SimulatedMachine machine = MachineOf(4);
  const SimulatedStep step{.units = 112, .seconds = 1, .bytes = 6};
  machine.end_s = 0.125;
  EXPECT_NEAR(StepSeconds(machine, step, AllOf(machine)), 0.375, 1e-9);
  machine.bytes_per_s = 2;
  EXPECT_NEAR(StepSeconds(machine, step, AllOf(machine)), 3, 1e-9);
  machine = MachineOf(4);
  machine.begin_s = 10;  // the caller is done before a helper begins
  EXPECT_NEAR(StepSeconds(machine, step, AllOf(machine)), 1, 1e-9);
  EXPECT_NEAR(StepSeconds(machine, step, AllOf(machine), Sharing::kEqualParts), 10.25, 1e-9);
}

TEST(SimulatedCoresTest, TilesAreDispatchedOneAfterTheOther) {
  const std::vector<SimulatedStep> steps = {{.units = 1, .seconds = 1}};
  SimulatedMachine machine = MachineOf(4);
  machine.dispatch_s = 0.5;
  EXPECT_NEAR(ImageSeconds(machine, steps, 4, 1), 3, 1e-9);
  EXPECT_NEAR(ImageSeconds(machine, steps, 8, 1), 5, 1e-9);
}

TEST(SimulatedCoresTest, IdleCoresHelpWithTheLastTiles) {
  const std::vector<SimulatedStep> steps(100, {.units = 224, .seconds = 0.01});
  EXPECT_NEAR(ImageSeconds(MachineOf(1), steps, 3, 8), 3, 1e-9);
  EXPECT_NEAR(ImageSeconds(MachineOf(3), steps, 3, 8), 1, 1e-9);
  // One more tile than cores: all of them compute it, but for the steps until they are there.
  EXPECT_NEAR(ImageSeconds(MachineOf(4), steps, 5, 8), 1.25, 0.03);
  EXPECT_NEAR(ImageSeconds(MachineOf(4), steps, 5, /*most_threads=*/1), 2, 1e-9);
}

}  // namespace
}  // namespace upscaled::bench
