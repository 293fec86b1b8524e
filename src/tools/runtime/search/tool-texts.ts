import type { SearchableTool } from './tool-index.ts'

/** The texts of a tool for the search by meaning: each becomes a vector. */
export function toolTexts({
  name,
  title,
  description,
  usersSay = [],
}: Pick<SearchableTool, 'name' | 'title' | 'description' | 'usersSay'>): string[] {
  const plainName = name.replace(/^aegis\./, '').replaceAll(/[._]+/g, ' ')
  const about = description ?? ''
  const firstSentence = about.split(/(?<=[.:;])\s/)[0]!
  const texts = [title ?? '', firstSentence, [plainName, title ?? '', about].filter(Boolean).join('. '), ...usersSay]
  return [...new Set(texts.filter(Boolean))]
}
