import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import { createTimeSlicer } from '../../kernel/time-slicer.ts'
import { editNote, pathOfNote, pathToRead, readText, recordWritten, requireText, type VaultContext } from './context.ts'
import { bodyStart, readFrontmatter } from './frontmatter.ts'
import { replaceLiteral, replacePattern } from './replace-text.ts'
import { type ActionSpec, action, type BatchNote, type VaultAnswer, type VaultParameters } from './requests.ts'
import { invalid, noteNotFound } from './rules.ts'
import { tagsOf } from './tags.ts'
import { requireSeen } from './team-folders.ts'

/** The actions on whole notes. */
export function noteActions(
  context: VaultContext,
): Readonly<Record<'read' | 'write' | 'delete' | 'replace' | 'move' | 'batch_read', ActionSpec>> {
  return {
    read: action(['path'], ['format'], async (call, { path, format = 'markdown' }) => {
      const text = await readText(context, call, pathToRead(context, path))
      const plain = { path, content: text, ...frontmatterAnswer(text) }
      return format === 'markdown' ? plain : { ...plain, body: text.slice(bodyStart(text)), tags: tagsOf(text) }
    }),
    write: action(['path', 'content'], ['mode'], (call, { path, content, mode = 'overwrite' }) =>
      writeNote(context, call, path, content, mode),
    ),
    delete: action(['path', 'confirm'], [], async (call, { path, confirm }) => {
      const note = pathOfNote(context, path)
      if (!confirm) throw invalid('confirm', 'must be true: the note is deleted permanently')
      if (!(await context.store.remove(call.principal.tenant, note, call.signal))) throw noteNotFound(path)
      call.record({ kind: 'vault_note_deleted', body: { path } })
      return { path, deleted: true }
    }),
    replace: action(
      ['path', 'old_string', 'new_string'],
      ['regex'],
      async (call, { path, old_string, new_string, regex = false }) => {
        const note = pathOfNote(context, path)
        const replace = (regex ? replacePattern : replaceLiteral)(old_string, new_string)
        const { answer } = await editNote(context, call, note, async (text) => {
          const { text: replaced, count } = await replace(text, createTimeSlicer(context.clock, call.signal))
          return { text: replaced, answer: count }
        })
        return { path, replacements: answer }
      },
    ),
    move: action(['path', 'new_path'], ['overwrite'], (call, { path, new_path, overwrite = false }) =>
      moveNote(context, call, path, new_path, overwrite),
    ),
    batch_read: action(['paths'], ['include_content', 'include_frontmatter'], async (call, input) => ({
      notes: await readBatch(
        context,
        call,
        input.paths,
        input.include_content ?? true,
        input.include_frontmatter ?? true,
      ),
    })),
  }
}

export function frontmatterAnswer(text: string): Pick<VaultAnswer, 'frontmatter' | 'frontmatter_error'> {
  const read = readFrontmatter(text)
  return {
    frontmatter: read.kind === 'fields' ? read.fields : null,
    frontmatter_error: read.kind === 'broken' ? read.reason : null,
  }
}

async function writeNote(
  context: VaultContext,
  call: Call,
  path: string,
  content: string,
  mode: VaultParameters['mode'],
): Promise<VaultAnswer> {
  const note = pathOfNote(context, path)
  const { written, created } = await context.store.update(
    call.principal.tenant,
    note,
    async (current) => {
      // A note that is replaced as a whole need not be readable.
      const before = current === undefined || mode === 'overwrite' ? '' : requireText(await current.read(), path)
      const written = Buffer.from(joined(before, content, mode))
      return { content: written, answer: { written, created: current === undefined } }
    },
    call.signal,
  )
  recordWritten(call, path, written)
  return { path, mode, created, size_bytes: written.byteLength }
}

/** Text is inserted after the front matter, which must stay at the beginning of the note. */
function joined(before: string, content: string, mode: VaultParameters['mode']): string {
  if (mode === 'append') return before + content
  if (mode === 'overwrite') return content
  const start = bodyStart(before)
  const head = before.slice(0, start)
  const gap = start > 1 && !head.endsWith('\n') ? '\n' : ''
  return head + gap + content + before.slice(start)
}

async function moveNote(
  context: VaultContext,
  call: Call,
  from: string,
  to: string,
  overwrite: boolean,
): Promise<VaultAnswer> {
  const [source, target] = [pathOfNote(context, from), pathOfNote(context, to, 'new_path')]
  if (source === target) throw invalid('new_path', 'must differ from path')
  const outcome = await context.store.move(call.principal.tenant, source, target, overwrite, call.signal)
  if (outcome === 'missing') throw noteNotFound(from)
  if (outcome === 'exists') {
    throw new AppError('ERR_ALREADY_EXISTS', 'new_path: a note with this path exists. Set overwrite to replace it.', {
      field: 'new_path',
      path: to,
    })
  }
  call.record({ kind: 'vault_note_moved', body: { from, to, replaced: outcome === 'replaced' } })
  return { moved: true, from, to, overwritten: outcome === 'replaced' }
}

/** Each note is returned, or the reason why it cannot be read; one failure does not affect the others. */
async function readBatch(
  context: VaultContext,
  call: Call,
  paths: readonly string[],
  withContent: boolean,
  withFrontmatter: boolean,
): Promise<BatchNote[]> {
  const notes: BatchNote[] = []
  let budget: number = limits.vaultBatchBytesMax
  for (const path of paths) {
    try {
      await requireSeen(context.visibleTeams, call, { path })
      const text = await readText(context, call, pathToRead(context, path))
      if (withContent) budget -= Buffer.byteLength(text)
      if (budget < 0) throw batchTooLarge()
      const { frontmatter = null } = withFrontmatter ? frontmatterAnswer(text) : {}
      notes.push({ path, content: withContent ? text : null, frontmatter, error: null })
    } catch (error) {
      if (!(error instanceof AppError) || error.code === 'ERR_STORE_UNAVAILABLE') throw error
      notes.push({ path, content: null, frontmatter: null, error: { code: error.code, message: error.message } })
    }
  }
  return notes
}

const batchTooLarge = (): AppError =>
  new AppError(
    'ERR_TOO_LARGE',
    `The notes of this batch have more than ${limits.vaultBatchBytesMax} bytes together. Read this one by itself.`,
    { rule: `at most ${limits.vaultBatchBytesMax} bytes` },
  )
