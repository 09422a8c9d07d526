#include "engine/base/cgroup.h"

#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <utility>

namespace upscaled {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

// Version 2: "max 100000" or "150000 100000".
double QuotaV2(const std::filesystem::path& group) {
  std::string quota_us;
  double period_us = 0;
  std::ifstream(group / "cpu.max") >> quota_us >> period_us;
  const double quota = std::strtod(quota_us.c_str(), nullptr);
  return quota > 0 && period_us > 0 ? quota / period_us : kNoLimit;
}

// Version 1: -1 is no limit.
double QuotaV1(const std::filesystem::path& group) {
  double quota_us = 0, period_us = 0;
  std::ifstream(group / "cpu.cfs_quota_us") >> quota_us;
  std::ifstream(group / "cpu.cfs_period_us") >> period_us;
  return quota_us > 0 && period_us > 0 ? quota_us / period_us : kNoLimit;
}

// A number in a file; "max", -1 and absent files are no limit.
double LimitIn(const std::filesystem::path& file) {
  double limit = 0;
  return std::ifstream(file) >> limit && limit > 0 ? limit : kNoLimit;
}

double MemoryV2(const std::filesystem::path& group) { return LimitIn(group / "memory.max"); }
double MemoryV1(const std::filesystem::path& group) {
  return LimitIn(group / "memory.limit_in_bytes");
}
double Tasks(const std::filesystem::path& group) { return LimitIn(group / "pids.max"); }

using GroupLimit = double (*)(const std::filesystem::path& group);

// How the two versions say a limit; in version 1, `controller` names the hierarchy, too.
struct Limit {
  const char* controller;
  GroupLimit v1, v2;
};

struct Found {
  double limit = kNoLimit;
  std::filesystem::path group;
};

// The minimum of `group` (below `mount`, beginning with a slash) and all above it, and of `min`.
Found MinOverGroups(GroupLimit limit_of, const std::filesystem::path& mount,
                    std::filesystem::path group, Found min) {
  const auto look_at = [&](const std::filesystem::path& at) {
    if (const double limit = limit_of(at); limit < min.limit) min = {limit, at};
  };
  look_at(mount);
  for (group = group.relative_path(); !group.empty(); group = group.parent_path()) {
    look_at(mount / group);
  }
  return min;
}

bool Lists(const std::string& controllers, const std::string& controller) {
  std::istringstream list(controllers);
  for (std::string name; std::getline(list, name, ',');) {
    if (name == controller) return true;
  }
  return false;
}

Found MinLimit(const Limit& limit, std::string_view membership,
               const std::filesystem::path& mount) {
  Found min;
  std::istringstream lines{std::string(membership)};
  // "hierarchy:controllers:path"; version 2 is hierarchy 0 without controllers.
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string hierarchy, controllers, path;
    std::getline(fields, hierarchy, ':');
    std::getline(fields, controllers, ':');
    std::getline(fields, path);
    if (hierarchy == "0" && controllers.empty()) {
      min = MinOverGroups(limit.v2, mount, path, std::move(min));
    } else if (Lists(controllers, limit.controller)) {
      min = MinOverGroups(limit.v1, mount / limit.controller, path, std::move(min));
    }
  }
  return min;
}

}  // namespace

double CgroupCpuQuota(std::string_view membership, const std::filesystem::path& mount) {
  return MinLimit({"cpu", &QuotaV1, &QuotaV2}, membership, mount).limit;
}

double CgroupMemoryLimit(std::string_view membership, const std::filesystem::path& mount) {
  return MinLimit({"memory", &MemoryV1, &MemoryV2}, membership, mount).limit;
}

CgroupTasks CgroupTaskLimit(std::string_view membership, const std::filesystem::path& mount) {
  const Found found = MinLimit({"pids", &Tasks, &Tasks}, membership, mount);
  return {.limit = found.limit, .group = found.group};
}

}  // namespace upscaled
