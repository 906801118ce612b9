# Completion of fdd's words in bash. Made from the tables of words: do not edit.
_fdd() {
    local line=${COMP_LINE:0:COMP_POINT} word name value before=
    word=${line##*[[:space:]]}
    name=${word%%=*}
    value=${word#*=}
    COMPREPLY=()
    if [[ $word != *=* ]]; then
        compopt -o nospace 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -W "if= of= bs= ibs= obs= cbs= count= skip= iseek= seek= oseek= conv= iflag= oflag= status= files= fillchar= speed= istride= ostride= stride= msgfmt= reflink= buffer= start= stop= hash= hashconv= lost= --help --version" -- "$word")
        return
    fi
    [[ $value == *,* ]] && before=${value%,*},
    case $name in
        if)
            compopt -o filenames 2>/dev/null
            mapfile -t COMPREPLY < <(compgen -f -- "$value") ;;
        of)
            compopt -o filenames 2>/dev/null
            mapfile -t COMPREPLY < <(compgen -f -- "$value") ;;
        conv) mapfile -t COMPREPLY < <(compgen -P "$before" -W "ascii ebcdic ibm block unblock lcase ucase sparse swab sync excl nocreat notrunc noerror fdatasync fsync osync punch oldascii oldebcdic oldibm asciib ebcdicb ibmb pareven parodd parnone parset" -- "${value##*,}") ;;
        iflag) mapfile -t COMPREPLY < <(compgen -P "$before" -W "append direct directory dsync sync fullblock nonblock noatime nocache noctty nofollow count_bytes skip_bytes seek_bytes neutral" -- "${value##*,}") ;;
        oflag) mapfile -t COMPREPLY < <(compgen -P "$before" -W "append direct directory dsync sync fullblock nonblock noatime nocache noctty nofollow count_bytes skip_bytes seek_bytes neutral" -- "${value##*,}") ;;
        status) mapfile -t COMPREPLY < <(compgen -P "$before" -W "none noxfer progress" -- "${value##*,}") ;;
        msgfmt) mapfile -t COMPREPLY < <(compgen -W "quiet posix human" -- "$value") ;;
        reflink) mapfile -t COMPREPLY < <(compgen -W "auto always never" -- "$value") ;;
        hash) mapfile -t COMPREPLY < <(compgen -P "$before" -W "sha256 sha512 sha1 md5 blake3" -- "${value##*,}") ;;
        hashconv) mapfile -t COMPREPLY < <(compgen -P "$before" -W "before after" -- "${value##*,}") ;;
        lost) mapfile -t COMPREPLY < <(compgen -W "ok" -- "$value") ;;
    esac
    # Where an equals sign does not break words, the whole word is replaced.
    [[ $COMP_WORDBREAKS == *=* ]] || COMPREPLY=("${COMPREPLY[@]/#/$name=}")
}
complete -F _fdd fdd
