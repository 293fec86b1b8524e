/**
 * The views of a result. An upstream result has content for the model and perhaps structured content, and nothing makes the two
 * equal.
 */
export function viewsOf(result: unknown): readonly unknown[] {
  if (!isAnswer(result)) return [result]
  const { structuredContent, content } = result
  const texts = content.map(({ type, text }) => (type === 'text' && typeof text === 'string' ? text : undefined))
  const only = texts.length === 1 ? texts[0] : undefined
  const read = only === undefined ? undefined : parsed(only)
  const asContent = read === undefined ? { content } : read
  if (structuredContent === undefined) return [asContent]
  const isSame = only !== undefined && JSON.stringify(read) === JSON.stringify(structuredContent)
  return isSame || content.length === 0 ? [structuredContent] : [structuredContent, asContent]
}

type Answer = Readonly<{ content: readonly Readonly<Record<string, unknown>>[]; structuredContent?: unknown }>

const isAnswer = (result: unknown): result is Answer =>
  typeof result === 'object' &&
  result !== null &&
  Array.isArray((result as { content?: unknown }).content) &&
  (result as Answer).content.every((block) => typeof block === 'object' && block !== null)

/** The possible first characters of JSON. Most texts are prose, and a parse error for each costs more than all the rest. */
const JSON_BEGINNING = /^[\t\n\r ]*(?:[[{"\d-]|true|false|null)/

/** A text that is JSON is parsed. */
function parsed(text: string): unknown {
  if (!JSON_BEGINNING.test(text)) return undefined
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
