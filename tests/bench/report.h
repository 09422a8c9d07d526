// The output of a bench: a human-readable table or, with --json, a list of objects.
#pragma once

#include <string>
#include <vector>

#include "tests/bench/measure.h"

namespace upscaled::bench {

struct ReportRow {
  std::string name;
  std::string shape;
  std::string precision = "exact";
  int threads = 1;
  Measurement measurement;  // of 0 seconds: it could not run, and the note says why
  std::string note;         // the table's last column
};

// The list's objects have the fields name, shape, precision, threads, seconds, gflops, peak_gflops
// and ratio; failed ones have name, shape, precision and error.
void PrintReport(const std::vector<ReportRow>& rows, bool json);

}  // namespace upscaled::bench
