import { checkTemplate, checkTemplates, warnOfShellWords } from './check-texts.ts'
import {
  type ContainerRunState,
  type ContainerStep,
  completions,
  type ParallelContainerRunState,
  type VolumeMount,
} from './manifest-types.ts'
import { readCommand, readCpu, readSize } from './read-commands.ts'
import { type Fields, openFields, quoted } from './read-fields.ts'
import { readOutputHandler } from './read-output-handler.ts'
import { readCommandTime, readDuration } from './read-values.ts'

export const stepFields = [
  'name',
  'image',
  'command',
  'env',
  'workdir',
  'volumes',
  'resources',
  'registry_credentials',
  'image_pull_policy',
  'shell',
]
export const containerFields = [
  ...stepFields,
  'retry',
  'read_only_root_filesystem',
  'run_as_user',
  'network_mode',
  'output_handler',
]

type Common = Pick<ContainerRunState, 'transitions' | 'timeoutMs' | 'maxVisits'>

export function readContainerRun(fields: Fields, stateName: string, common: Common): ContainerRunState | undefined {
  const step = readStep(fields, stateName)
  const retry = fields.map('retry', { known: ['max_attempts', 'backoff'] })
  const outputHandler = readOutputHandler(fields)
  if (step === undefined) return undefined
  return {
    kind: 'ContainerRun',
    ...common,
    step,
    retry: {
      maxAttempts: retry?.number('max_attempts', { integer: true, min: 0, max: 10 }) ?? 0,
      backoffMs: (retry && readDuration(retry, 'backoff')) ?? 0,
    },
    outputHandler,
  }
}

export function readParallelContainers(fields: Fields, common: Common): ParallelContainerRunState | undefined {
  const list = fields.list('steps')
  if (list === undefined || list.length === 0 || list.length > 20) {
    fields.error('steps', 'must be a list of 1 to 20 steps')
    return undefined
  }
  const steps = list.flatMap((item, index) => {
    const step = openFields(fields.findings, `${fields.at}.steps[${index}]`, item, {
      known: stepFields,
      renamed: { working_dir: 'workdir', environment: 'env', env_additions: 'env' },
    })
    return (step && readStep(step, `step-${index + 1}`)) ?? []
  })
  const names = new Set<string>()
  for (const { name } of steps) {
    if (names.has(name)) fields.error('steps', `two steps are named ${quoted(name)}; give each a name of its own`)
    names.add(name)
  }
  return {
    kind: 'ParallelContainerRun',
    ...common,
    steps,
    completion: fields.choice('completion', completions) ?? 'all_succeed',
  }
}

function readStep(fields: Fields, fallbackName: string): ContainerStep | undefined {
  let name = fields.text('name', { max: 128 })
  if (name === undefined) {
    if (fields.raw('name') === undefined) fields.warn('name', `is absent; ${quoted(fallbackName)} is used`)
    name = fallbackName
  }
  if (name === '__proto__') fields.error('name', 'cannot be __proto__')
  const image = fields.text('image', { required: true, max: 512 })
  checkTemplate(fields, 'image', image)
  const shell = fields.flag('shell') ?? false
  const command = readCommand(fields)
  if (command !== undefined) warnOfShellWords(fields, 'command', command, shell)
  refuseWhatCannotBe(fields)
  const pull = readPull(fields)
  const registryCredentials = readCredentials(fields)
  const env = fields.texts('env') ?? {}
  checkTemplates(fields, 'env', env)
  const workdir = fields.text('workdir', { max: 4096 }) ?? null
  checkTemplate(fields, 'workdir', workdir)
  if (image === undefined || command === undefined) return undefined
  return {
    name,
    image,
    isImageReplaceable: pull !== 'Never',
    registryCredentials,
    command,
    env,
    workdir,
    volumes: readMounts(fields),
    resources: readResources(fields),
    shell,
    readOnlyRoot: fields.flag('read_only_root_filesystem') ?? false,
    network: readNetwork(fields),
  }
}

/** Fields that have a meaning which no workspace can give; each says what to do instead. */
function refuseWhatCannotBe(fields: Fields): void {
  const user = fields.raw('run_as_user')
  if (user === undefined) return
  if (!/^[A-Za-z0-9_.-]{1,64}(:[A-Za-z0-9_.-]{1,64})?$/.test(String(user))) {
    fields.error('run_as_user', 'must be a user, or user:group')
  } else if (!/^(0|root)(:|$)/.test(String(user))) {
    fields.warn(
      'run_as_user',
      'commands of a workspace have no capability and are nobody outside it; inside they show the number 0',
    )
  }
}

/** `vault:NAME` is `secret:NAME` under its older name. */
function readCredentials(fields: Fields): string | null {
  const input = fields.text('registry_credentials', { max: 256 })
  if (input === undefined) return null
  const name = input.trim().replace(/^(?:vault|secret):/, '')
  if (!/^[A-Za-z0-9._/-]+$/.test(name)) {
    fields.error('registry_credentials', 'must be secret:NAME, with a name of executions.secrets in the configuration')
  }
  fields.warn('registry_credentials', 'must be set, but is not sent: images are not pulled here (castellan image)')
  return name
}

function readPull(fields: Fields): 'Always' | 'IfNotPresent' | 'Never' | undefined {
  const pull = fields.choice('image_pull_policy', ['Always', 'IfNotPresent', 'Never'])
  if (pull === 'Always')
    fields.error('image_pull_policy', 'Always cannot be kept, because images are not pulled; use IfNotPresent')
  return pull
}

function readMounts(fields: Fields): readonly VolumeMount[] {
  return (fields.list('volumes') ?? []).flatMap((item, index) => {
    const mount = openFields(fields.findings, `${fields.at}.volumes[${index}]`, item, {
      known: ['name', 'mount_path', 'read_only'],
      renamed: { mount_point: 'mount_path', path: 'mount_path', readonly: 'read_only' },
    })
    const name = mount?.text('name', { required: true, max: 64 })
    const mountPath = mount?.text('mount_path', { required: true, max: 4096 })
    if (mount === undefined || name === undefined || mountPath === undefined) return []
    if (!/^[A-Za-z0-9_][A-Za-z0-9._-]*$/.test(name)) mount.error('name', 'use letters, digits, ".", "_" and "-"')
    if (!mountPath.startsWith('/') || mountPath.split('/').includes('..')) {
      mount.error('mount_path', 'must be an absolute path without ".."')
    }
    return [{ name, mountPath: mountPath.replace(/(?<=.)\/+$/, ''), readOnly: mount.flag('read_only') ?? false }]
  })
}

function readResources(fields: Fields): ContainerStep['resources'] {
  const resources = fields.map('resources', { known: ['cpu', 'memory', 'timeout'] })
  const bytes = resources && readSize(resources, 'memory')
  return {
    cpuMillis: (resources && readCpu(resources)) ?? null,
    memoryMb: bytes === undefined ? null : Math.max(16, Math.ceil(bytes / 2 ** 20)),
    timeoutMs: resources === undefined ? null : readCommandTime(resources, 'timeout'),
  }
}

function readNetwork(fields: Fields): ContainerStep['network'] {
  const mode = fields.text('network_mode', { max: 64 })
  if (mode === undefined || mode === 'default') return 'default'
  if (mode === 'none' || mode === 'bridge') return mode
  fields.error('network_mode', `${quoted(mode)} cannot be given to a workspace; use none, bridge or default`)
  return 'default'
}
