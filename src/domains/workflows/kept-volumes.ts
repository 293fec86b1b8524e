import { AppError } from '../../contract/app-error.ts'
import { pause } from '../../kernel/pause.ts'
import { shellWord } from '../../kernel/shell-word.ts'
import { askTool, callTool, toError } from './desk-calls.ts'
import type { JsonObject, SharedVolume } from './manifest-types.ts'
import { quoted } from './read-fields.ts'
import type { Visit } from './run-ports.ts'
import { type CopyEnd, copyVolume } from './volume-copies.ts'

/**
 * A shared volume that outlives runs: a workspace of whoever runs the workflow, with one folder for each state of its files. A step
 * is given the latest and leaves the next. Two that began with the same cannot both be next: the second fails, and what the
 * first left stays.
 */
export type KeptVolume = Readonly<{ workspace: string; generation: number; volume: SharedVolume }>

const FOLDER = '/volumes'
const MAKING_LOOK_MS = 200
const MAKING_LOOKS_MAX = 150
const folderOf = (generation: number): string => `${FOLDER}/g${generation}`

/** By the workflow and the name of the volume, for every run of it by the same caller. */
export const keptVolumeName = ({ run }: Pick<Visit, 'run'>, volume: string): string =>
  `wf-${run.subjectId}-volume-${volume}`

export async function openKeptVolume(visit: Visit, volume: SharedVolume): Promise<KeptVolume> {
  const workspace = await workspaceFor(visit, keptVolumeName(visit, volume.name))
  // What a server left that died on the way is nobody's.
  const tidy = `find ${FOLDER} -maxdepth 1 -name '.new-*' -mmin +1440 -exec rm -rf {} +`
  const found = await sh(visit, workspace, `mkdir -p ${FOLDER} && ${tidy}; cd ${FOLDER} && ls -A`)
  const generations = String(found['stdout'])
    .split('\n')
    .flatMap((name) => (/^g\d{1,9}$/.test(name) ? Number(name.slice(1)) : []))
  return { workspace, generation: Math.max(0, ...generations), volume }
}

export const copyFromKept = (visit: Visit, { workspace, generation, volume }: KeptVolume, to: CopyEnd): Promise<void> =>
  copyVolume(visit, volume.name, { workspace, path: folderOf(generation) }, to)

/** The files become the next state at once, or not at all. */
export async function copyToKept(visit: Visit, from: CopyEnd, kept: KeptVolume): Promise<void> {
  const { workspace, generation, volume } = kept
  const incoming = `${FOLDER}/.new-${visit.deps.newId()}`
  await copyVolume(visit, volume.name, from, { workspace, path: incoming })
  await requireRoom(visit, kept, incoming)
  const [next, old] = [folderOf(generation + 1), folderOf(generation - 1)]
  const put = await sh(visit, workspace, `[ ! -e ${next} ] && mv -T ${incoming} ${next} && rm -rf ${old}`)
  if (put['exit_code'] === 0) return
  await sh(visit, workspace, `rm -rf ${shellWord(incoming)}`)
  throw new AppError(
    'ERR_COMMAND_FAILED',
    `The volume ${quoted(volume.name)} was changed by another step meanwhile; its files stay, and what this one wrote is not kept. Run one after the other, or mount it read_only.`,
    { volume: volume.name },
  )
}

async function requireRoom(visit: Visit, { workspace, volume }: KeptVolume, path: string): Promise<void> {
  if (volume.sizeLimitBytes === null) return
  const measured = await sh(visit, workspace, `du -sb --apparent-size ${path} | cut -f1`)
  const bytes = Number(measured['stdout'])
  if (bytes <= volume.sizeLimitBytes) return
  await sh(visit, workspace, `rm -rf ${path}`)
  throw new AppError(
    'ERR_QUOTA_EXCEEDED',
    `The volume ${quoted(volume.name)} would hold ${bytes} bytes; its size_limit_bytes is ${volume.sizeLimitBytes}.`,
    { volume: volume.name, bytes, size_limit_bytes: volume.sizeLimitBytes },
  )
}

const sh = (visit: Visit, workspace: string, command: string): Promise<JsonObject> =>
  askTool(visit, 'exec', { workspace_id: workspace, command, workdir: '/', timeout_secs: 300 })

async function workspaceFor(visit: Visit, name: string): Promise<string> {
  const made = await callTool(visit, 'workspace_create', { name, allow_internet: false })
  if (!made.isError) return String((made.value as JsonObject)['workspace_id'])
  if (made.code !== 'ERR_ALREADY_EXISTS') throw toError('workspace_create', made)
  for (let attempt = 1; ; attempt++) {
    const { workspace_id: id, state } = await askTool(visit, 'workspace_info', { workspace_id: name })
    if (state === 'running') return String(id)
    // A step beside this one is making it.
    if (state !== 'creating' || attempt >= MAKING_LOOKS_MAX) {
      await askTool(visit, 'workspace_start', { workspace_id: String(id) })
      return String(id)
    }
    await pause(MAKING_LOOK_MS, visit.steps.signal)
  }
}
