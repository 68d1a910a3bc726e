// Computes a case under disturbance: all its requests together, with pauses and cancels, in runners that have
// random settings and are killed at random steps.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "test/exactness/answer.h"
#include "test/exactness/case.h"
#include "test/exactness/events.h"
#include "test/exactness/random.h"
#include "test/exactness/setting.h"
#include "test/exactness/subject.h"

namespace runnel::exactness {

class Crowd {
 public:
  // All arguments must outlive this.
  Crowd(const Subject& subject, const Sizes& sizes, const Case& of_case, Random& random);

  // Runs until the request under test has ended.
  Answer run();
  const Events& events() const { return events_; }

  // The vector of another request that asked for one.
  struct Vector {
    wire::Generate request;
    Pooling pooling;
    std::vector<float> values;
  };
  const std::vector<Vector>& vectors() const { return vectors_; }

 private:
  struct Member {
    wire::Generate request;
    uint32_t arrival_step;
    std::optional<Pooling> pooling = {};
    bool is_inside = false;  // the runner has the request
    bool has_ended = false;
    bool is_paused = false;
    Answer answer;
  };
  // A runner: a model and its engine, which are killed together.
  struct Runner {
    Runner(const Subject& subject, const Setting& with) : setting(with), loaded(subject.load(with)) {}
    Setting setting;
    LoadedModel loaded;
    WatchedEngine watched{*loaded.model, loaded.engine->config(), setting.reads_logits};
  };

  Member& under_test() { return members_.front(); }
  Engine& engine() { return runner_->watched.engine(); }

  void start_runner();
  void kill_runner();
  void submit(Member& member);
  void meddle();
  void set_paused(Member& member, bool is_paused);
  void step();
  void notice(const Plan& plan);
  // What computed a step.
  struct Means {
    bool is_replayed;
    bool is_ahead;
  };
  void take(const NewToken& token, const Means& means);
  void take(const Embedded& embedded);
  void clear_out();

  const Subject& subject_;
  const Sizes& sizes_;
  const Case& case_;
  Random& random_;
  std::vector<Member> members_;
  std::optional<Runner> runner_;
  uint32_t num_kills_left_;
  uint32_t num_kills_survived_ = 0;
  bool was_scheduled_ = false;  // the request under test, by the current runner
  Events events_;
  std::vector<Vector> vectors_;
};

}  // namespace runnel::exactness
