import { afterAll, describe } from 'vitest'
import { isLongRun } from '../support/long-run.ts'
import { type OpenedBackend, openNamespacesBackend, openUserBackend } from '../support/namespaces-backend.ts'
import { busyboxLayer, programsLayer } from '../support/oci-image.ts'
import { describeBackend } from './backend-suite.ts'
import { describeEscapes } from './escape-suite.ts'
import { describeDebian, describeImages, PACKAGE_CAPABILITIES } from './image-suite.ts'

const openers: readonly (readonly [string, () => Promise<OpenedBackend>])[] = [
  ['with the privileges that the tests have', () => openNamespacesBackend()],
  ['as an ordinary user with subordinate ids', () => openUserBackend({ subordinateIds: true })],
]

/** With everything that the escapes try; what is not there could not get out. */
const escapeTools =
  'sh bash perl cat grep ls ln rm mkdir mknod head tail tr wc sync sleep timeout mount umount chroot unshare nsenter pkill'

/** One back end for everything in the block that this is called in. */
function sharedBackend(open: () => Promise<OpenedBackend>): () => Promise<OpenedBackend> {
  let opening: Promise<OpenedBackend> | undefined
  afterAll(async () => await (await opening)?.close())
  return async () => {
    opening ??= open()
    return { ...(await opening), close: async () => {} }
  }
}

async function openWith(open: () => Promise<OpenedBackend>, name: string, layer: ReturnType<typeof busyboxLayer>) {
  const opened = await open()
  await opened.buildLayers(name, [layer, [{ name: 'etc/profile', content: '' }]])
  return opened
}

describe.each(openers)('images, %s', (title, openOne) => {
  const open = sharedBackend(openOne)
  describeImages(`workspaces on images, ${title}`, open)
  describeBackend(`namespaces, on an image of busybox, ${title}`, () => openWith(open, 'busybox', busyboxLayer()), {
    name: 'busybox',
    capabilities: PACKAGE_CAPABILITIES,
  })
  describeEscapes(
    `escapes, from an image in which packages can be installed, ${title}`,
    () => openWith(open, 'tools', programsLayer(escapeTools.split(' '))),
    'tools',
  )
})

const BUILD_TIMEOUT_MS = 1_200_000

async function openDebian(open: () => Promise<OpenedBackend>): Promise<OpenedBackend> {
  const opened = await open()
  await opened.buildImage('debian', { kind: 'debootstrap', suite: 'bookworm', mirror: undefined })
  // It ended meanwhile, because nobody needed it; only its own user can start it.
  await opened.restart()
  return opened
}

/** Minutes each, and it needs a mirror of Debian: only in the long run. */
for (const [title, open] of isLongRun ? openers : []) {
  describeDebian(`workspaces on Debian, ${title}`, () => openDebian(open), BUILD_TIMEOUT_MS)
  describeEscapes(`escapes, from Debian, ${title}`, () => openDebian(open), 'debian', BUILD_TIMEOUT_MS)
}
