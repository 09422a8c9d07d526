#include "server/rest/question_pool.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/base/error.h"
#include "server/calls/call_steps.h"

namespace upscaled::server {
namespace {

constexpr absl::Duration kQuestionRetryDelay = absl::Seconds(1);

// `whose`: " of yours", or "" for those of all.
absl::Status TooManyQuestions(int most, const char* whose) {
  return MakeOverloaded(
      absl::StrCat(most, " questions", whose, " wait for the queue of jobs, the most at a time"),
      kQuestionRetryDelay, {{"limit", "job-questions"}, {"maximum", absl::StrCat(most)}});
}

}  // namespace

absl::Status QuestionPool::Run(const Payer& payer, std::function<void()> question) {
  const std::string& name = payer.name();
  {
    absl::MutexLock lock(&mutex_);
    if (questions_ == kMaxQuestions) return TooManyQuestions(kMaxQuestions, "");
    if (!shares_.Fits(name, 1)) return TooManyQuestions(kMaxOfPayer, " of yours");
    ++questions_;
    shares_.Take(name, 1);
  }
  const auto answer = [this, name, question = std::move(question)] {
    question();
    Leave(name);
  };
  if (threads_.Run(answer)) return absl::OkStatus();
  Leave(name);
  return OutOfThreads();
}

void QuestionPool::Leave(const std::string& payer) {
  absl::MutexLock lock(&mutex_);
  --questions_;
  shares_.Give(payer, 1);
}

}  // namespace upscaled::server
