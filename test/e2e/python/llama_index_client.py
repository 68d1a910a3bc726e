"""LlamaIndex, by its classes for servers with OpenAI's API."""

from llama_index.core.llms import ChatMessage
from llama_index.embeddings.openai_like import OpenAILikeEmbedding
from llama_index.llms.openai_like import OpenAILike

from shared import MODEL, QUESTION, kills_within


def things(url):
    place = {"api_base": f"{url}/v1", "api_key": "none", "max_retries": 0}
    asked = [ChatMessage(role="user", content=QUESTION)]
    model = OpenAILike(model=MODEL, is_chat_model=True, temperature=0, max_tokens=12, **place)
    whole = model.chat(asked).message.content
    yield "".join(part.delta or "" for part in model.stream_chat(asked)) == whole != ""
    plain = OpenAILike(model=MODEL, is_chat_model=False, temperature=0, max_tokens=12, **place)
    yield "".join(part.delta or "" for part in plain.stream_complete("Once")) == plain.complete("Once").text != ""
    long = OpenAILike(model=MODEL, is_chat_model=True, temperature=0, max_tokens=200, **place)
    expected = long.chat(asked).message.content
    for kill in kills_within(url):
        stream = long.stream_chat(asked)
        said = next(stream).delta or ""
        kill()
        yield said + "".join(part.delta or "" for part in stream) == expected
    embedding = OpenAILikeEmbedding(model_name=MODEL, **place)
    yield len(embedding.get_text_embedding("a")) == 576
    yield embedding.get_text_embedding_batch(["a", "b"])[0] == embedding.get_text_embedding("a")
