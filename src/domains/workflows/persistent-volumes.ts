import { AppError } from '../../contract/app-error.ts'
import type { JsonObject } from '../../kernel/canonical-json.ts'
import { pause } from '../../kernel/pause.ts'
import { quoted } from '../manifests/findings.ts'
import { namedFailure } from '../runs/tool-client.ts'
import { askScript, askTool, callTool, runScript } from './invoker-calls.ts'
import type { SharedVolume } from './manifest-schema.ts'
import type { Visit } from './run-ports.ts'
import { asideName, type CopyEnd, conflicting, copyFailed, copyVolume } from './volume-copies.ts'

/**
 * A shared volume that outlives runs: a workspace of the run's owner, with one folder for each generation of its files. A folder
 * is immutable once it exists. A step gets the latest generation and creates the next.
 *
 * 1. If other steps created a generation meanwhile, only the changes and removals of this step are applied to the latest.
 * 2. If two steps changed a file to different contents, nothing of the later step is applied: its version stays in a folder of
 *    the volume, and the step fails and names the files.
 */
export type PersistentVolume = Readonly<{ workspace: string; generation: number; base: string; volume: SharedVolume }>

const FOLDER = '/volumes'
const CREATING_POLL_MS = 200
const CREATING_POLLS_MAX = 150
/** Each failed attempt means that another step succeeded. */
const PUTS_MAX = 50
const OPENS_MAX = 20
const CONFLICT_EXIT = 3
const NAMES_DISPLAYED_MAX = 10
const folderOf = (generation: number): string => `${FOLDER}/g${generation}`

/** One volume for each workflow, volume name and owner. */
const persistentVolumeName = ({ run }: Pick<Visit, 'run'>, volume: string): string =>
  `wf-${run.subjectId}-volume-${volume}`

const latest = `ls -A ${FOLDER} | sed -n 's/^g\\([0-9]\\{1,9\\}\\)$/\\1/p' | sort -n | tail -n 1`

export async function openPersistentVolume(visit: Visit, volume: SharedVolume): Promise<PersistentVolume> {
  const workspace = await workspaceFor(visit, persistentVolumeName(visit, volume.name))
  const base = `${FOLDER}/.base-${visit.deps.newId()}`
  // Folders that a killed server left behind belong to no step.
  const tidy = `find ${FOLDER} -maxdepth 1 \\( -name '.new-*' -o -name '.base-*' \\) -mmin +1440 -exec rm -rf {} +`
  await sh(visit, workspace, `mkdir -p ${folderOf(0)} && ${tidy}`)
  // A folder that another step is removing is no longer the latest.
  const take = `n=$(${latest}); rm -rf ${base}; cp -al ${FOLDER}/g$n ${base} && touch ${base} && echo $n`
  for (let attempt = 1; ; attempt++) {
    const found = await sh(visit, workspace, take)
    if (found['exit_code'] === 0) return { workspace, generation: Number(found['stdout']), base, volume }
    if (attempt >= OPENS_MAX) throw copyFailed(volume.name, found)
  }
}

export const copyFromPersistent = (
  visit: Visit,
  { workspace, base, volume }: PersistentVolume,
  to: CopyEnd,
): Promise<void> => copyVolume(visit, volume.name, { workspace, path: base }, to)

/** A folder that cannot be removed now is removed later with those of killed servers. */
export const closePersistentVolume = (
  visit: Visit,
  { workspace, base }: Pick<PersistentVolume, 'workspace' | 'base'>,
) => runScript(visit, { workspace_id: workspace, command: `rm -rf ${base}`, workdir: '/' })

/** The files become the next generation atomically. */
export async function copyToPersistent(
  visit: Visit,
  step: string,
  from: CopyEnd,
  retained: PersistentVolume,
): Promise<void> {
  const { workspace, volume, base } = retained
  const own = `${FOLDER}/.new-${visit.deps.newId()}`
  await copyVolume(visit, volume.name, from, { workspace, path: own })
  const aside = asideName(visit, step)
  try {
    for (let [attempt, generation] = [1, retained.generation]; ; attempt++) {
      const isNext = generation === retained.generation
      const next = isNext ? own : `${own}-merged`
      const sides = { base, own, theirs: folderOf(generation), next, aside }
      const made = isNext ? { exit_code: 0 } : await sh(visit, workspace, mergeScript(sides))
      const isConflict = made['exit_code'] === CONFLICT_EXIT
      if (made['exit_code'] === 0 || isConflict) {
        await requireSpace(visit, retained, next)
        const [target, old] = [folderOf(generation + 1), folderOf(generation - 1)]
        const put = await sh(visit, workspace, `[ ! -e ${target} ] && mv -T ${next} ${target} && rm -rf ${old}`)
        if (put['exit_code'] === 0 && isConflict) throw conflicting(volume.name, step, aside, String(made['stdout']))
        if (put['exit_code'] === 0) return
      }
      if (attempt >= PUTS_MAX) throw copyFailed(volume.name, made)
      generation = Number((await sh(visit, workspace, latest))['stdout'])
    }
  } finally {
    await closePersistentVolume(visit, { workspace, base: `${own} ${own}-merged` })
  }
}

type Sides = Readonly<Record<'base' | 'own' | 'theirs' | 'next' | 'aside', string>>

/** Merges the changes of one step since `base` with the latest files into the next generation. */
const mergeScript = ({ base, own, theirs, next, aside }: Sides): string => `set -e
export LC_ALL=C
rm -rf ${next} && cp -a ${theirs} ${next}
lists=$(mktemp -d); trap 'rm -rf "$lists"' EXIT
names() { (cd "$1" && find . ! -type d ! -path './.unmerged-*' | sort) > "$lists/$2"; }
names ${base} base; names ${own} own; names ${theirs} theirs
same() {
  if [ -L "$1" ] || [ -L "$2" ]; then [ "$(readlink "$1" || echo .)" = "$(readlink "$2" || echo ..)" ]; return; fi
  [ -e "$1" ] && [ -e "$2" ] && [ "$(stat -c %f "$1")" = "$(stat -c %f "$2")" ] && cmp -s "$1" "$2"
}
gone() { [ ! -e "$1" ] && [ ! -L "$1" ]; }
: > "$lists/changed"; : > "$lists/removed"; : > "$lists/differ"
while IFS= read -r name; do
  [ -n "$name" ] || continue
  same "${base}/$name" "${own}/$name" && continue
  if gone "${own}/$name"; then list=removed; else list=changed; fi
  printf '%s\n' "$name" >> "$lists/$list"
  same "${base}/$name" "${theirs}/$name" && continue
  if gone "${base}/$name" && gone "${theirs}/$name"; then continue; fi
  if gone "${own}/$name" && gone "${theirs}/$name"; then continue; fi
  same "${own}/$name" "${theirs}/$name" || printf '%s\n' "$name" >> "$lists/differ"
done <<END
$(sort -u "$lists/base" "$lists/own")
END
if [ -s "$lists/differ" ]; then
  mkdir -p "${next}/${aside}" && tar -C ${own} -cf - -T "$lists/changed" | tar -C "${next}/${aside}" -xf -
  head -n ${NAMES_DISPLAYED_MAX} "$lists/differ"
  exit ${CONFLICT_EXIT}
fi
while IFS= read -r name; do rm -f -- "${next}/$name"; done < "$lists/removed"
(cd ${own} && find . -type d -empty) > "$lists/empty"
while IFS= read -r name; do mkdir -p -- "${next}/$name"; done < "$lists/empty"
tar -C ${own} -cf - -T "$lists/changed" | tar -C ${next} -xf - --unlink-first`

async function requireSpace(visit: Visit, { workspace, volume }: PersistentVolume, path: string): Promise<void> {
  if (volume.sizeLimitBytes === null) return
  const measured = await sh(visit, workspace, `du -sb --apparent-size ${path} | cut -f1`)
  const bytes = Number(measured['stdout'])
  if (bytes <= volume.sizeLimitBytes) return
  throw new AppError(
    'ERR_QUOTA_EXCEEDED',
    `The volume ${quoted(volume.name)} would have ${bytes} bytes, more than its size_limit_bytes of ${volume.sizeLimitBytes}. Write less, or raise the limit.`,
    { volume: volume.name, bytes, size_limit_bytes: volume.sizeLimitBytes },
  )
}

const sh = (visit: Visit, workspace: string, command: string): Promise<JsonObject> =>
  askScript(visit, { workspace_id: workspace, command, workdir: '/', timeout_secs: 300 })

async function workspaceFor(visit: Visit, name: string): Promise<string> {
  const size = { vcpus: 1, memory_mb: 256 }
  const made = await callTool(visit, 'workspace_create', { name, allow_internet: false, ...size })
  if (!made.isError) return String((made.value as JsonObject)['workspace_id'])
  if (made.code !== 'ERR_ALREADY_EXISTS') throw namedFailure('workspace_create', made)
  for (let attempt = 1; ; attempt++) {
    const { workspace_id: id, state } = await askTool(visit, 'workspace_info', { workspace_id: name })
    if (state === 'running') return String(id)
    // A concurrent step is creating it.
    if (state !== 'creating' || attempt >= CREATING_POLLS_MAX) {
      await askTool(visit, 'workspace_start', { workspace_id: String(id) })
      return String(id)
    }
    await pause(CREATING_POLL_MS, visit.steps.signal)
  }
}
