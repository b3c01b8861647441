#!/usr/bin/python3
"""Stands in for QEMU: it makes a machine's state of some bytes, and does with one that is restored what the file `mode` next to
its packages says."""
import array, json, os, signal, socket, sys

words = sys.argv
if '--version' in words:
    print('QEMU emulator version 10.0.2')
    sys.exit(0)
root = words[0].removesuffix('/usr/bin/qemu-system-x86_64')
mode = open(root + '/mode').read()
is_restored = '-incoming' in words


def connect(name):
    connection = socket.socket(socket.AF_UNIX)
    connection.connect('/run/pinfold/' + name)
    return connection


if '-S' not in words and not is_restored:
    connect('channel')
    sys.exit('it boots')
if is_restored and mode == 'killed before it connects':
    os.kill(os.getpid(), signal.SIGKILL)
if is_restored:
    channel = connect('channel')
monitor = connect('monitor')


def say(message):
    monitor.sendall(json.dumps(message).encode() + b'\n')


def over(status):
    say({'event': 'MIGRATION', 'data': {'status': status}})


say({'QMP': {}})
passed = []
while True:
    line, ancillary, _, _ = monitor.recvmsg(65536, socket.CMSG_SPACE(4))
    if not line:
        break
    for _, _, data in ancillary:
        passed.extend(array.array('i', data))
    command = json.loads(line)['execute']
    if command == 'migrate-incoming':
        if mode == 'killed while it wakes':
            os.kill(os.getpid(), signal.SIGKILL)
        if mode == 'ends without an error':
            sys.exit(0)
        if mode == 'ends with an error':
            sys.exit('no such state')
    say({'return': {}})
    if command == 'cont':
        say({'event': 'VSERPORT_CHANGE', 'data': {'id': 'port', 'open': True}})
    if command == 'migrate':
        os.write(passed[-1], b'state')
        os.close(passed.pop())
        over('completed')
    if command == 'migrate-incoming':
        over('failed')
        sys.exit('refused')
