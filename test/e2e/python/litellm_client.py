"""LiteLLM, which speaks the APIs of OpenAI, Anthropic, Ollama and vLLM."""

import os

# Otherwise it asks the network for the prices of models.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm

from shared import ASKED, MODEL, kills_within, refused

LIMITS = {"temperature": 0, "max_tokens": 12, "num_retries": 0}


def text_of(stream):
    return "".join(part.choices[0].delta.content or "" for part in stream)


def things(url):
    by = {
        f"openai/{MODEL}": {"api_base": f"{url}/v1", "api_key": "none"},
        f"anthropic/{MODEL}": {"api_base": url, "api_key": "none"},
        f"ollama_chat/{MODEL}": {"api_base": url},
    }
    answers = []
    for model, place in by.items():
        whole = litellm.completion(model=model, messages=ASKED, **place, **LIMITS)
        answers.append(whole.choices[0].message.content)
        yield whole.usage.completion_tokens == 12
        yield text_of(litellm.completion(model=model, messages=ASKED, stream=True, **place, **LIMITS)) == answers[-1]
    yield len(set(answers)) == 1 and answers[0] != ""
    place = by[f"openai/{MODEL}"]
    long = {"model": f"openai/{MODEL}", "messages": ASKED, "temperature": 0, "max_tokens": 200, "num_retries": 0, **place}
    expected = litellm.completion(**long).choices[0].message.content
    for kill in kills_within(url):
        stream = litellm.completion(**long, stream=True)
        said = next(stream).choices[0].delta.content or ""
        kill()
        yield said + text_of(stream) == expected
    vectors = litellm.embedding(model=f"openai/{MODEL}", input=["a", "b"], encoding_format="float", **place).data
    yield [len(each["embedding"]) for each in vectors] == [576, 576]
    documents = ["Paris is the capital of France.", "The sea is deep."]
    ranked = litellm.rerank(model=f"hosted_vllm/{MODEL}", query="France?", documents=documents, api_base=url, api_key="none")
    yield sorted(each["index"] for each in ranked.results) == [0, 1]
    absent = {"model": "openai/absent", "messages": ASKED, "num_retries": 0, **place}
    yield "absent" in str(refused(litellm.NotFoundError, lambda: litellm.completion(**absent)))
