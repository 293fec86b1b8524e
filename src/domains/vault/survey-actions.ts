import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import { createTimeSlicer } from '../../kernel/time-slicer.ts'
import { textOf, type VaultContext } from './context.ts'
import { lineFinder } from './find-lines.ts'
import type { VaultEntry, VaultPath } from './ports.ts'
import { type ActionSpec, action, type VaultAnswer } from './requests.ts'
import { folderPath, hasExtension, invalid } from './rules.ts'
import { hasTag, tagName } from './tags.ts'
import { hiddenFolders, isCard } from './team-folders.ts'

const RECENT_DEFAULT = 10
const RESULTS_DEFAULT = 20

/** The actions over many notes. */
export function surveyActions(context: VaultContext): Readonly<Record<'search' | 'list' | 'stats', ActionSpec>> {
  return {
    search: action(['query'], ['regex', 'path_prefix', 'tag', 'max_results'], (call, input) =>
      searchNotes(context, call, {
        query: input.query,
        isPattern: input.regex ?? false,
        prefix: input.path_prefix ?? '',
        tag: input.tag,
        countMax: input.max_results ?? RESULTS_DEFAULT,
      }),
    ),
    list: action([], ['path', 'recursive'], async (call, { path = '', recursive = false }) => {
      const folder = folderPath(path, context.rules)
      const entries: NonNullable<VaultAnswer['entries']>[number][] = []
      let truncated = false
      for await (const entry of survey(context, call, folder, () => recursive)) {
        truncated = entry === 'too-many' || entries.length === limits.vaultListMax
        if (truncated || entry === 'too-many') break
        entries.push({ path: entry.path, is_dir: entry.isFolder, size: entry.isFolder ? null : entry.sizeBytes })
      }
      entries.sort((one, other) => (one.path < other.path ? -1 : 1))
      return { path: folder, recursive, count: entries.length, entries, truncated }
    }),
    stats: action([], ['recent_count'], (call, { recent_count = RECENT_DEFAULT }) =>
      countNotes(context, call, recent_count),
    ),
  }
}

/** Folders and notes below a folder, without excluded ones; the last item is `too-many` if it ends early. */
async function* survey(
  context: VaultContext,
  call: Call,
  folder: VaultPath | '',
  isEntered: (path: string) => boolean,
): AsyncGenerator<VaultEntry | 'too-many'> {
  let seen = 0
  const isHidden = await hiddenFolders(context.visibleTeams, call)
  const isListed = (path: string, name: string) => !context.rules.excludedFolders.has(name) && !isHidden(path)
  for await (const entry of context.store.walk(call.principal.tenant, folder, { isListed, isEntered })) {
    call.signal.throwIfAborted()
    if (++seen > limits.vaultWalkMax) {
      yield 'too-many'
      return
    }
    const name = entry.path.slice(entry.path.lastIndexOf('/') + 1)
    if (entry.isFolder || isCard(entry.path) || hasExtension(name, context.rules.extensions)) yield entry
  }
}

type SearchRequest = Readonly<{
  query: string
  isPattern: boolean
  prefix: string
  tag: string | undefined
  countMax: number
}>

async function searchNotes(context: VaultContext, call: Call, request: SearchRequest): Promise<VaultAnswer> {
  const { query, prefix } = request
  if (query === '') throw invalid('query', 'must not be empty')
  const tag = request.tag === undefined ? undefined : tagName(request.tag)
  if (request.tag !== undefined && tag === undefined) throw invalid('tag', 'must be a tag, such as project/home')
  const countMax = request.countMax === 0 ? limits.vaultSearchResultsMax : request.countMax
  const findLines = lineFinder(query, request.isPattern)
  const slicer = createTimeSlicer(context.clock, call.signal)
  const results: NonNullable<VaultAnswer['results']>[number][] = []
  const skipped = { unreadable: 0, longLines: 0 }
  let truncated = false
  const mayHold = (folder: string) => prefix.startsWith(`${folder}/`) || `${folder}/`.startsWith(prefix)
  for await (const entry of survey(context, call, '', mayHold)) {
    truncated = entry === 'too-many' || slicer.spentMs() > limits.vaultSearchMs
    if (truncated || entry === 'too-many') break
    if (entry.isFolder || !entry.path.startsWith(prefix)) continue
    const text = await readQuietly(context, call, entry.path)
    if (text === undefined) skipped.unreadable++
    if (text === undefined || (tag !== undefined && !hasTag(text, tag))) continue
    // One more than requested shows whether there are more.
    const { found, longLines } = await findLines(text, countMax - results.length + 1, slicer)
    skipped.longLines += longLines
    results.push(...found.map((line) => ({ path: entry.path, ...line })))
    truncated = results.length > countMax
    if (truncated) break
  }
  warnOf(call, skipped)
  results.length = Math.min(results.length, countMax)
  return { query, result_count: results.length, results, truncated }
}

function warnOf(call: Call, skipped: Readonly<{ unreadable: number; longLines: number }>): void {
  if (skipped.unreadable > 0) {
    call.warn(`Files left out, because they are too large, not UTF-8 text or removed: ${skipped.unreadable}.`)
  }
  if (skipped.longLines > 0) {
    call.warn(
      `Lines of which only the beginning was searched, because they are too long for this pattern: ${skipped.longLines}.`,
    )
  }
}

/** The text of a visited note; undefined if it is not text, or was removed meanwhile. */
async function readQuietly(context: VaultContext, call: Call, path: string): Promise<string | undefined> {
  try {
    const bytes = await context.store.read(call.principal.tenant, path as VaultPath)
    return bytes === undefined ? undefined : textOf(bytes)
  } catch (error) {
    if (error instanceof AppError) return undefined
    throw error
  }
}

async function countNotes(context: VaultContext, call: Call, recentCount: number): Promise<VaultAnswer> {
  let [total_notes, total_folders, total_size_bytes] = [0, 0, 0]
  let truncated = false
  let recent: VaultEntry[] = []
  const keepRecent = () => {
    recent.sort((one, other) => other.modifiedMs - one.modifiedMs || (one.path < other.path ? -1 : 1))
    recent = recent.slice(0, recentCount)
  }
  for await (const entry of survey(context, call, '', () => true)) {
    if (entry === 'too-many') {
      truncated = true
    } else if (entry.isFolder) {
      total_folders++
    } else {
      total_notes++
      total_size_bytes += entry.sizeBytes
      recent.push(entry)
      if (recent.length > 2 * limits.vaultRecentMax) keepRecent()
    }
  }
  keepRecent()
  const recent_files = recent.map(({ path, sizeBytes, modifiedMs }) => ({
    path,
    size_bytes: sizeBytes,
    modified: new Date(modifiedMs).toISOString(),
  }))
  return { total_notes, total_folders, total_size_bytes, recent_files, truncated }
}
