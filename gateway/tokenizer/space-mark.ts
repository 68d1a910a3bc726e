/** How SentencePiece's vocabularies write a space. */
export const spaceMark = '▁';
