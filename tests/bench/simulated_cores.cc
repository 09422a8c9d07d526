#include "tests/bench/simulated_cores.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "engine/backends/cpu/team.h"

namespace upscaled::bench {
namespace {

using cpu::SharedUnits;

// The columns of a thread of Sharing::kEqualParts.
int EqualPart(int units, size_t thread, size_t threads) {
  const auto begin = [&](size_t i) { return static_cast<int>(int64_t{units} * i / threads); };
  return begin(thread + 1) - begin(thread);
}

// A tile in progress, with its cores.
struct Team {
  double now_s = 0;
  size_t next_step = 0;
  std::vector<int> cores;
};

}  // namespace

double StepSeconds(const SimulatedMachine& machine, const SimulatedStep& step,
                   std::span<const int> cores, Sharing sharing) {
  const size_t threads = std::min(cores.size(), static_cast<size_t>(step.units));
  const auto compute_s = [&](size_t thread, int units) {
    return step.seconds * units / step.units / machine.speeds[cores[thread]];
  };
  if (threads == 1) return compute_s(0, step.units);
  std::vector<double> now_s(threads);
  now_s[0] = static_cast<double>(threads - 1) * machine.start_s;
  for (size_t i = 1; i < threads; ++i) {
    now_s[i] = static_cast<double>(i) * machine.start_s + machine.begin_s;
  }
  double end_s = 0;
  const auto compute = [&](size_t thread, int units) {
    now_s[thread] += machine.take_s + compute_s(thread, units);
    end_s = std::max(end_s, now_s[thread]);
  };
  if (sharing == Sharing::kEqualParts) {
    for (size_t i = 0; i < threads; ++i) compute(i, EqualPart(step.units, i, threads));
  } else {
    SharedUnits shared;
    shared.Deal(step.units, static_cast<int>(threads));
    while (true) {
      const size_t first = std::ranges::min_element(now_s) - now_s.begin();
      const SharedUnits::Units taken = shared.Take(static_cast<int>(first));
      if (taken.empty()) break;  // for the others, too, which end with what they have taken
      compute(first, taken.count());
    }
  }
  end_s += machine.end_s;
  return machine.bytes_per_s > 0 ? std::max(end_s, step.bytes / machine.bytes_per_s) : end_s;
}

double ImageSeconds(const SimulatedMachine& machine, std::span<const SimulatedStep> tile_steps,
                    int tiles, int most_threads) {
  const int cores = static_cast<int>(machine.speeds.size());
  std::vector<Team> teams(std::min(tiles, cores));
  double dispatched_s = 0;
  const auto dispatch = [&](Team& team) {
    dispatched_s = std::max(dispatched_s, team.now_s) + machine.dispatch_s;
    team.now_s = dispatched_s;
    team.next_step = 0;
  };
  for (size_t i = 0; i < teams.size(); ++i) {
    teams[i].cores = {static_cast<int>(i)};
    dispatch(teams[i]);
  }
  int begun = static_cast<int>(teams.size());
  std::vector<int> idle(cores - begun);
  std::iota(idle.begin(), idle.end(), begun);
  double end_s = 0;
  while (!teams.empty()) {
    const auto team = std::ranges::min_element(teams, {}, &Team::now_s);
    if (team->next_step == tile_steps.size()) {
      end_s = std::max(end_s, team->now_s);
      if (begun < tiles) {
        ++begun;
        dispatch(*team);
      } else {
        idle.insert(idle.end(), team->cores.begin(), team->cores.end());
        teams.erase(team);
      }
      continue;
    }
    const int running = static_cast<int>(teams.size());
    const int share = std::min((cores + running - 1) / running, most_threads);
    if (std::ssize(team->cores) < share && !idle.empty()) {
      team->cores.push_back(idle.back());
      idle.pop_back();
    }
    SimulatedStep step = tile_steps[team->next_step++];
    step.bytes *= running;  // the others use the memory as well
    team->now_s += StepSeconds(machine, step, team->cores);
  }
  return end_s;
}

}  // namespace upscaled::bench
