import type { Call } from '../../contract/call.ts'
import type { Clock } from '../../kernel/clock.ts'
import { sha256Hex } from '../../kernel/hash.ts'
import type { VaultPath, VaultStore } from './ports.ts'
import { invalid, noteNotFound, notePath, type PathRules } from './rules.ts'
import { isCard, type VisibleTeams } from './team-folders.ts'

/** The shared dependencies of all actions. */
export type VaultContext = Readonly<{
  store: VaultStore
  clock: Clock
  rules: PathRules & Readonly<{ extensions: readonly string[] }>
  visibleTeams: VisibleTeams
}>

export const pathOfNote = (context: VaultContext, path: string, field = 'path'): VaultPath =>
  notePath(path, context.rules, field)

/** The same for reading only: cards of teams are included. */
export const pathToRead = (context: VaultContext, path: string): VaultPath =>
  notePath(path, isCard(path) ? { ...context.rules, extensions: undefined } : context.rules)

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** The exact text of a note; undefined if it is not UTF-8. */
export function textOf(bytes: Uint8Array): string | undefined {
  try {
    return decoder.decode(bytes)
  } catch {
    return undefined
  }
}

export function requireText(bytes: Uint8Array, path: string): string {
  const text = textOf(bytes)
  if (text === undefined) throw invalid('path', 'is a file that is not UTF-8 text', { path })
  return text
}

export async function readText(context: VaultContext, call: Call, path: VaultPath): Promise<string> {
  const bytes = await context.store.read(call.principal.tenant, path)
  if (bytes === undefined) throw noteNotFound(path)
  return requireText(bytes, path)
}

/** Records in the log what the note contains now. */
export const recordWritten = (call: Call, path: string, content: Uint8Array): void =>
  call.record({
    kind: 'vault_note_written',
    body: { path, size_bytes: content.byteLength, sha256: sha256Hex(content) },
  })

/**
 * Changes the text of an existing note; `edit` returns undefined to leave it unchanged. Returns the resulting text, and
 * whether it changed.
 */
export async function editNote<T>(
  context: VaultContext,
  call: Call,
  path: VaultPath,
  edit: (text: string) => Promise<Readonly<{ text: string | undefined; answer: T }>>,
): Promise<Readonly<{ text: string; isChanged: boolean; answer: T }>> {
  const result = await context.store.update(
    call.principal.tenant,
    path,
    async (current) => {
      if (current === undefined) throw noteNotFound(path)
      const before = requireText(await current.read(), path)
      const { text = before, answer } = await edit(before)
      const content = text === before ? undefined : Buffer.from(text)
      return { content, answer: { text, answer, content } }
    },
    call.signal,
  )
  if (result.content !== undefined) recordWritten(call, path, result.content)
  return { text: result.text, isChanged: result.content !== undefined, answer: result.answer }
}
