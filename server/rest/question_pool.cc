#include "server/rest/question_pool.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/base/error.h"
#include "server/calls/call_steps.h"

namespace upscaled::server {
namespace {

constexpr absl::Duration kQuestionRetryDelay = absl::Seconds(1);

absl::Status TooManyQuestions() {
  return MakeOverloaded(
      absl::StrCat(QuestionPool::kMaxQuestions,
                   " questions wait for the queue of jobs, the most at a time"),
      kQuestionRetryDelay,
      {{"limit", "job-questions"}, {"maximum", absl::StrCat(QuestionPool::kMaxQuestions)}});
}

}  // namespace

absl::Status QuestionPool::Run(std::function<void()> question) {
  {
    absl::MutexLock lock(&mutex_);
    if (questions_ == kMaxQuestions) return TooManyQuestions();
    ++questions_;
  }
  const auto answer = [this, question = std::move(question)] {
    question();
    absl::MutexLock lock(&mutex_);
    --questions_;
  };
  if (threads_.Run(answer)) return absl::OkStatus();
  absl::MutexLock lock(&mutex_);
  --questions_;
  return OutOfThreads();
}

}  // namespace upscaled::server
