import { stem } from './stem.ts'
import { stopWords } from './stop-words.ts'
import { documentWords, foldWord } from './tokenize.ts'

/** The words of a text as they are compared, once each: those that say something, or all if none does. */
export function queryTerms(text: string): string[] {
  const words = documentWords(text).map(foldWord)
  const telling = words.filter((word) => !stopWords.has(word))
  return [...new Set((telling.length > 0 ? telling : words).map(stem))]
}
