import type { OciOptions } from './oci-image.ts'

/** Archives that are not what they say they are; each holds one file, etc/x. */
export const brokenArchives: readonly [string, OciOptions][] = [
  ['another layer under the same digest', { compression: 'none', tamper: (members) => change(members, 'etc/x') }],
  ['another configuration', { tamper: (members) => change(members, '"os"') }],
  ['another layer in a docker archive', { format: 'docker', tamper: (members) => change(members, 'etc/x') }],
  [
    'no such layer',
    { tamper: (members) => members.delete([...members.keys()].find((name) => name.startsWith('blobs'))!) },
  ],
  ['an index that is not JSON', { tamper: (members) => void members.set('index.json', Buffer.from('{')) }],
  ['an index of the wrong shape', { tamper: (members) => void members.set('index.json', Buffer.from('[]')) }],
  [
    'a digest that leads elsewhere',
    {
      tamper: (members) => void members.set('index.json', Buffer.from('{"manifests":[{"digest":"sha256:../../x"}]}')),
    },
  ],
  ['an image for another machine', { architecture: 's390x' }],
  ['no image at all', { tamper: (members) => members.clear() }],
]

/** One byte of the member that holds this text. */
function change(members: Map<string, Buffer>, text: string): void {
  const found = [...members].find(([name, bytes]) => name !== 'manifest.json' && bytes.includes(text))
  const bytes = found![1]
  bytes[bytes.lastIndexOf(text)] = 0x58
}
