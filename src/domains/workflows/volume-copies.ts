import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import type { JsonObject } from '../../kernel/canonical-json.ts'
import { shellWord } from '../../kernel/shell-word.ts'
import { quoted } from '../manifests/findings.ts'
import { askScript } from './invoker-calls.ts'
import type { Visit } from './run-ports.ts'

/**
 * A volume of a step that has a workspace of its own: copied in before the step, merged back after it.
 *
 * 1. Only the changes and removals of the step are merged, so concurrent changes of others stay.
 * 2. If both sides changed a file to different contents, nothing of the step is applied: its version stays in a folder beside
 *    the volume, and the step fails and names the files.
 */
export type CopyEnd = Readonly<{ workspace: string; path: string }>
export type VolumeCopy = Readonly<{ volume: string; retained: CopyEnd; own: CopyEnd; mark: string }>

/** Raw bytes of one chunk. Its base64 fits into the output and the input of a command. */
const PIECE_BYTES = 1_300_000
const CONFLICT_EXIT = 3
const NAMES_DISPLAYED_MAX = 10

const runIn = (visit: Visit, workspace: string, command: string, more: JsonObject = {}): Promise<JsonObject> =>
  askScript(visit, { workspace_id: workspace, command, timeout_secs: 300, ...more })

async function mustRun(visit: Visit, volume: string, workspace: string, command: string): Promise<JsonObject> {
  const answer = await runIn(visit, workspace, command)
  if (answer['exit_code'] !== 0) throw copyFailed(volume, answer)
  return answer
}

/** Transfers a file of that name from one workspace to the other. */
async function movePack(visit: Visit, volume: string, pack: string, from: string, to: string): Promise<void> {
  const bytes = Number((await mustRun(visit, volume, from, `wc -c < ${pack}`))['stdout'])
  if (bytes > limits.workflowVolumeBytesMax) {
    throw new AppError(
      'ERR_TOO_LARGE',
      `The volume ${quoted(volume)} has ${bytes} bytes packed; the limit for a copy between workspaces is ${limits.workflowVolumeBytesMax}. Make the volume smaller.`,
      { volume, bytes },
    )
  }
  await runIn(visit, to, `rm -f ${pack}`)
  for (let offset = 0; offset < bytes; offset += PIECE_BYTES) {
    const piece = await runIn(visit, from, `tail -c +${offset + 1} ${pack} | head -c ${PIECE_BYTES} | base64 -w 0`, {
      max_output_bytes: limits.execOutputBytesMax,
    })
    await runIn(visit, to, `base64 -d >> ${pack}`, { stdin: String(piece['stdout']) })
  }
  await runIn(visit, from, `rm -f ${pack}`)
}

/** Copies a whole volume, with links. Files that the source lacks are removed from the target. */
export async function copyVolume(visit: Visit, volume: string, source: CopyEnd, target: CopyEnd): Promise<void> {
  const [origin, folder] = [shellWord(source.path), shellWord(target.path)]
  // Concurrent steps copy at the same time.
  const pack = `/tmp/.volume-${visit.deps.newId()}`
  await mustRun(visit, volume, source.workspace, `mkdir -p ${origin} && tar -C ${origin} -czf ${pack} .`)
  await movePack(visit, volume, pack, source.workspace, target.workspace)
  const unpack = `mkdir -p ${folder} && tar -C ${folder} -xzf ${pack} && rm -f ${pack}`
  await mustRun(visit, volume, target.workspace, `rm -rf ${folder}/* ${folder}/.[!.]*; ${unpack}`)
}

/** All files and links, one on each line, in the order that `comm` requires. */
const names = (more = ''): string => `find . ! -type d ${more} | LC_ALL=C sort`

/** Copies the volume to the step's workspace, and records on both sides what it held at that time. */
export async function copyIn(visit: Visit, { volume, retained, own, mark }: VolumeCopy): Promise<void> {
  const [origin, folder] = [shellWord(retained.path), shellWord(own.path)]
  await mustRun(
    visit,
    volume,
    retained.workspace,
    `mkdir -p ${origin} && : > ${mark} && tar -C ${origin} -czf ${mark}.pack .`,
  )
  await movePack(visit, volume, `${mark}.pack`, retained.workspace, own.workspace)
  const unpack = `mkdir -p ${folder} && cd ${folder} && tar -xzf ${mark}.pack && rm -f ${mark}.pack`
  await mustRun(visit, volume, own.workspace, `${unpack} && ${names()} > ${mark}.names && : > ${mark}`)
}

/** Records what a volume holds now; for both sides of a volume that was not copied by `copyIn`. */
export async function startVolume(visit: Visit, { workspace, path }: CopyEnd, mark: string): Promise<void> {
  const folder = shellWord(path)
  await mustRun(
    visit,
    path,
    workspace,
    `mkdir -p ${folder} && cd ${folder} && ${names()} > ${mark}.names && : > ${mark}`,
  )
}

/** Whether the record exists, so the volume has not been merged since. */
export async function isStarted(visit: Visit, { workspace }: CopyEnd, mark: string): Promise<boolean> {
  return (await runIn(visit, workspace, `[ -e ${mark} ]`))['exit_code'] === 0
}

/** Merges the step's changes to its copy into the volume. */
export async function mergeBack(
  visit: Visit,
  step: string,
  { volume, retained, own, mark }: VolumeCopy,
): Promise<void> {
  const folder = shellWord(own.path)
  const lists = `${mark}.lists`
  const script = [
    `mkdir -p ${lists} && cd ${folder}`,
    `{ ${names(`-cnewer ${mark}`)}; find . -type d -empty -cnewer ${mark} ! -name .; } > ${lists}/changed`,
    `${names()} > ${lists}/now`,
    `LC_ALL=C comm -23 ${mark}.names ${lists}/now > ${lists}/removed`,
    `tar -czf ${lists}/pack -T ${lists}/changed`,
    `tar -C ${lists} -czf ${mark}.pack changed removed pack`,
  ].join(' && ')
  await mustRun(visit, volume, own.workspace, script)
  await movePack(visit, volume, `${mark}.pack`, own.workspace, retained.workspace)
  const aside = asideName(visit, step)
  const applied = await runIn(visit, retained.workspace, mergeScript(retained.path, mark, aside))
  if (applied['exit_code'] === CONFLICT_EXIT) throw conflicting(volume, step, aside, String(applied['stdout']))
  if (applied['exit_code'] !== 0) throw copyFailed(volume, applied)
}

/** The folder for a version that cannot be merged. It is unique across runs and attempts. */
export const asideName = ({ deps }: Visit, step: string): string =>
  `.unmerged-${step.replaceAll(/[^A-Za-z0-9_-]/g, '-')}-${deps.newId().slice(-12)}`

/** One command, serialised per workspace: no other merge may happen between comparing and applying. */
const mergeScript = (path: string, mark: string, aside: string): string => `exec 9> /tmp/.volume-merge
flock 9 2> /dev/null
set -e
mkdir -p ${mark}.lists && tar -C ${mark}.lists -xzf ${mark}.pack
cd ${shellWord(path)}
find . ! -type d -cnewer ${mark} ! -path './.unmerged-*' | LC_ALL=C sort > ${mark}.others
LC_ALL=C sort -u ${mark}.lists/changed ${mark}.lists/removed | LC_ALL=C comm -12 - ${mark}.others > ${mark}.both
if [ -s ${mark}.both ]; then
  mkdir -p ${aside} && tar -C ${aside} -xzf ${mark}.lists/pack
  while IFS= read -r name; do cmp -s "$name" "${aside}/$name" || printf '%s\\n' "$name"; done < ${mark}.both > ${mark}.differ
  if [ -s ${mark}.differ ]; then head -n ${NAMES_DISPLAYED_MAX} ${mark}.differ; rm -rf ${mark} ${mark}.*; exit ${CONFLICT_EXIT}; fi
  rm -rf ${aside}
fi
while IFS= read -r name; do rm -f -- "$name"; done < ${mark}.lists/removed
tar -xzf ${mark}.lists/pack
rm -rf ${mark} ${mark}.*`

export const conflicting = (volume: string, step: string, aside: string, files: string): AppError => {
  const displayed = files.split('\n').filter((name) => name !== '')
  return new AppError(
    'ERR_COMMAND_FAILED',
    `The step ${quoted(step)} and another one wrote the same files of the volume ${quoted(volume)}: what this step wrote is in its folder ${aside}, and nothing else of it was applied. Have each step write different files, or run the steps one after the other.`,
    { volume, files: displayed, unmerged: aside },
  )
}

export const copyFailed = (volume: string, answer: JsonObject): AppError =>
  new AppError('ERR_COMMAND_FAILED', `The volume ${quoted(volume)} could not be copied.`, {
    volume,
    stderr: String(answer['stderr'] ?? '').slice(0, 500),
  })
