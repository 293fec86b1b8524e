/** The terms of docs/glossary.md, to link a tool's words to their meaning. */
export type GlossaryTerm = Readonly<{ id: string; term: string }>

const ROW = /^\| <a id="([^"]+)"><\/a>(.+?) \|/gm

/** As verbs they are plain English, and descriptions begin with verbs. */
const verbs: ReadonlySet<string> = new Set(['audit', 'record', 'run'])

export const glossaryTerms = (text: string): GlossaryTerm[] =>
  [...text.matchAll(ROW)].map(([, id, term]) => ({ id: id!, term: term! })).filter(({ term }) => !verbs.has(term))

/** A link for each term that the text uses, in the order of the glossary; a term within a longer one counts as the longer. */
export function glossaryLinks(terms: readonly GlossaryTerm[], toolset: string, text: string): string[] {
  let rest = text.toLowerCase()
  const found = new Set<GlossaryTerm>()
  for (const one of terms.toSorted((a, b) => b.term.length - a.term.length)) {
    const without = rest.replaceAll(patternOf(one.term, toolset), ' ')
    if (without !== rest) found.add(one)
    rest = without
  }
  return terms.filter((one) => found.has(one)).map(({ id, term }) => `[${shownAs(term)}](../glossary.md#${id})`)
}

/** Which of the four kinds of task a toolset speaks of. */
const taskTerms: Readonly<Record<string, string>> = {
  ledger: 'task: ledger task',
  executions: 'task: `aegis.task.*`',
  teams: 'task: team task',
}

function patternOf(term: string, toolset: string): RegExp {
  const word = term === taskTerms[toolset] ? 'task' : term.replaceAll('`', '').toLowerCase()
  return new RegExp(`(?<![\\w.-])${RegExp.escape(word)}(?:e?s)?(?![\\w-])`, 'g')
}

const shownAs = (term: string): string => term.replace(/^task: (?!`)/, '')
