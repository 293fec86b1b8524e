import { readFileSync } from 'node:fs'
import { directory, type LayerFile, programsLayer } from './oci-image.ts'

const programs = [
  ...'sh apt-get apt-config dpkg dpkg-deb dpkg-split dpkg-query ldconfig start-stop-daemon'.split(' '),
  ...'cat chmod chown cp diff id ln ls mkdir mv rm sha256sum stat tar touch'.split(' '),
  ...['copy', 'file', 'store'].map((method) => `/usr/lib/apt/methods/${method}`),
]
const tables = ['/usr/share/dpkg/cputable', '/usr/share/dpkg/tupletable']

/** A system with apt and dpkg of this machine and no package, made in a moment. It has the account that apt downloads as. */
export const packageLayers = (): LayerFile[][] => [
  programsLayer(programs),
  [
    {
      name: 'etc/passwd',
      content: 'root:x:0:0::/root:/bin/sh\n_apt:x:42:65534::/none:/bin/false\nserver:x:120:121::/srv:/bin/sh\n',
    },
    { name: 'etc/group', content: 'root:x:0:\nnogroup:x:65534:\nserver:x:121:\n' },
    { name: 'etc/nsswitch.conf', content: 'passwd: files\ngroup: files\n' },
    ...tables.map((path) => ({ name: path.slice(1), content: readFileSync(path) })),
    ...['info', 'updates', 'triggers'].map((name) => directory(`var/lib/dpkg/${name}`)),
    { name: 'var/lib/dpkg/status' },
    ...['apt.conf.d', 'preferences.d', 'sources.list.d', 'trusted.gpg.d'].map((name) => directory(`etc/apt/${name}`)),
    ...['lib/apt/lists/partial', 'cache/apt/archives/partial', 'log/apt'].map((name) => directory(`var/${name}`)),
  ],
]

/**
 * Makes the package `sample` and a repository in /repo with it, and makes apt use that. It has a program that lends its
 * owner's rights, and gives a folder to that owner when it is installed.
 */
export const makeRepository = `
set -e
mkdir -p /repo /made/DEBIAN /made/usr/bin /made/var/lib/sample
cd /made
cat >DEBIAN/control <<END
Package: sample
Version: 1
Architecture: all
Maintainer: Nobody <nobody@example.org>
Description: sample
END
printf '#!/bin/sh\\nset -e\\nchown 120:121 /var/lib/sample\\nchmod 1770 /var/lib/sample\\n' >DEBIAN/postinst
chmod 755 DEBIAN/postinst
printf '#!/bin/sh\\necho it runs\\n' >usr/bin/sample
chown 120:121 usr/bin/sample
chmod 4755 usr/bin/sample
dpkg-deb --build /made /repo/sample.deb
cd /repo
{
  dpkg-deb --field sample.deb
  echo Filename: ./sample.deb
  echo Size: $(stat -c %s sample.deb)
  sum=$(sha256sum sample.deb)
  echo SHA256: \${sum%% *}
} >Packages
echo 'deb [trusted=yes] copy:/repo ./' >/etc/apt/sources.list
`
