"""LangChain's models of OpenAI."""

from langchain_openai import ChatOpenAI, OpenAIEmbeddings

from shared import MODEL, QUESTION, SCHEMA


def things(url):
    model = ChatOpenAI(model=MODEL, base_url=f"{url}/v1", api_key="none", temperature=0, max_tokens=12, max_retries=0)
    whole = model.invoke(QUESTION).content
    yield "".join(chunk.content for chunk in model.stream(QUESTION)) == whole != ""
    yield len(model.batch([QUESTION, "Hello"])) == 2
    long = ChatOpenAI(model=MODEL, base_url=f"{url}/v1", api_key="none", temperature=0, max_tokens=200, max_retries=0)
    person = {"title": "person", "description": "A person", **SCHEMA}
    yield 0 <= long.with_structured_output(person, method="json_schema", strict=True).invoke("Who are you?")["age"] <= 99
    embeddings = OpenAIEmbeddings(
        model=MODEL, base_url=f"{url}/v1", api_key="none", check_embedding_ctx_length=False, max_retries=0
    )
    one, other = embeddings.embed_documents([QUESTION, "Hello"])
    yield one != other and one == embeddings.embed_query(QUESTION)
