"""Cohere's clients, which rank documents."""

import cohere
from cohere.errors import BadRequestError

from shared import MODEL, refused

QUERY = "What is the capital of France?"
DOCUMENTS = ["Paris is the capital of France.", "A lion roars at night.", "The sea is deep."]


def things(url):
    client = cohere.ClientV2(api_key="none", base_url=url)
    asked = {"model": MODEL, "query": QUERY, "documents": DOCUMENTS}
    ranked = client.rerank(**asked).results
    scores = [each.relevance_score for each in ranked]
    yield scores == sorted(scores, reverse=True) and all(0 < score < 1 for score in scores)
    yield sorted(each.index for each in ranked) == [0, 1, 2]
    yield client.rerank(**asked, top_n=2).results == ranked[:2]
    older = cohere.Client(api_key="none", base_url=url)
    for first, each in zip(ranked, older.rerank(**asked, return_documents=True).results, strict=True):
        yield (each.index, each.relevance_score) == (first.index, first.relevance_score)
        yield each.document.text == DOCUMENTS[each.index]
    yield "top_n" in str(refused(BadRequestError, lambda: client.rerank(**asked, top_n=0)))
    long = {**asked, "documents": ["a", "long " * 9000]}
    yield sorted(each.index for each in client.rerank(**long, max_tokens_per_doc=64).results) == [0, 1]
    yield "documents.1" in str(refused(BadRequestError, lambda: client.rerank(**long)))
