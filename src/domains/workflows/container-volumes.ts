import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import { shellWord } from '../../kernel/shell-word.ts'
import { askTool } from './desk-calls.ts'
import type { JsonObject, SharedVolume, Storage, VolumeMount } from './manifest-types.ts'
import { quoted } from './read-fields.ts'
import type { Visit } from './run-ports.ts'

/** Where a volume lies in the workspace of the run. */
export const volumePlace = (name: string): string => (name === 'workspace' ? '/workspace' : `/volumes/${name}`)

const ID_KEY = '_volume_id'

/** Names of volumes that a manifest need not declare: `workspace`, and what the key of its id on the blackboard says. */
export const workspaceNames = ({ workspace: { blackboardKey } }: Storage): readonly string[] =>
  blackboardKey.endsWith(ID_KEY) ? ['workspace', blackboardKey.slice(0, -ID_KEY.length)] : ['workspace']

/** The volumes of a step, each in the workspace of the run (`from` is null) or in one that the blackboard names as `<name>_volume_id`. */
export function placedVolumes({ manifest, context }: Visit, volumes: readonly VolumeMount[]): readonly PlacedVolume[] {
  const own = workspaceNames(manifest.storage)
  return volumes.map((volume) => {
    if (own.includes(volume.name)) return { ...volume, name: 'workspace', from: null, kept: null }
    const shared = manifest.storage.sharedVolumes.find(({ name }) => name === volume.name)
    const id = shared === undefined ? context[`${volume.name}${ID_KEY}`] : undefined
    const from = typeof id === 'string' && id.trim() !== '' ? id.trim() : null
    return { ...volume, from, kept: shared?.storageClass === 'persistent' ? shared : null }
  })
}

/** `kept` is the volume that outlives the run, if it is one. */
export type PlacedVolume = VolumeMount & Readonly<{ from: string | null; kept: SharedVolume | null }>

/** Makes volumes appear where a step wants them. What already lies there is not covered up. */
export function mountScript(volumes: readonly VolumeMount[]): string {
  const lines = volumes.map(({ name, mountPath }) => {
    const [place, path] = [shellWord(volumePlace(name)), shellWord(mountPath)]
    if (volumePlace(name) === mountPath) return `mkdir -p ${place}`
    const parent = shellWord(mountPath.slice(0, mountPath.lastIndexOf('/')) || '/')
    return `mkdir -p ${place} ${parent} && { [ "$(readlink ${path})" = ${place} ] || { { [ ! -e ${path} ] || rmdir ${path} 2>/dev/null; } && ln -s ${place} ${path}; } || { echo "mount_path "${path}" holds something else" >&2; exit 125; }; }`
  })
  return lines.join('\n')
}

/** Raw bytes of one piece; its base64 fits what a command may print and be given. */
const PIECE_BYTES = 1_300_000

export type CopyEnd = Readonly<{ workspace: string; path: string }>

/** Copies a volume, files and links as they are, from one workspace to another. */
export async function copyVolume(visit: Visit, volume: string, source: CopyEnd, target: CopyEnd): Promise<void> {
  const [from, to] = [source.workspace, target.workspace]
  const [origin, place] = [shellWord(source.path), shellWord(target.path)]
  // Steps that run beside each other copy at the same time.
  const pack = `/tmp/.volume-${visit.deps.newId()}`
  const sh = (workspace: string, command: string, more: JsonObject = {}) =>
    askTool(visit, 'exec', { workspace_id: workspace, command, timeout_secs: 300, ...more })
  const packed = await sh(from, `mkdir -p ${origin} && tar -C ${origin} -czf ${pack} . && wc -c < ${pack}`)
  const bytes = Number(packed['stdout'])
  if (packed['exit_code'] !== 0 || !Number.isInteger(bytes)) throw copyFailed(volume, packed)
  if (bytes > limits.workflowVolumeBytesMax) {
    throw new AppError(
      'ERR_TOO_LARGE',
      `The volume ${quoted(volume)} has ${bytes} bytes packed; at most ${limits.workflowVolumeBytesMax} are copied to the workspace of another image.`,
      { volume, bytes },
    )
  }
  await sh(to, `rm -f ${pack}`)
  for (let offset = 0; offset < bytes; offset += PIECE_BYTES) {
    const piece = await sh(from, `tail -c +${offset + 1} ${pack} | head -c ${PIECE_BYTES} | base64 -w 0`, {
      max_output_bytes: limits.execOutputBytesMax,
    })
    await sh(to, `base64 -d >> ${pack}`, { stdin: String(piece['stdout']) })
  }
  // What was removed on one side must not live on at the other.
  const unpacked = await sh(
    to,
    `rm -rf ${place}/* ${place}/.[!.]*; mkdir -p ${place} && tar -C ${place} -xzf ${pack} && rm -f ${pack}`,
  )
  await sh(from, `rm -f ${pack}`)
  if (unpacked['exit_code'] !== 0) throw copyFailed(volume, unpacked)
}

const copyFailed = (volume: string, answer: JsonObject): AppError =>
  new AppError('ERR_COMMAND_FAILED', `The volume ${quoted(volume)} could not be copied.`, {
    volume,
    stderr: String(answer['stderr'] ?? '').slice(0, 500),
  })
